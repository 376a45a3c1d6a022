"""The builds of the CI service: each really runs the tests of a repository, then reports by webhook.

A key starts one build, whatever is asked under it again. A held build waits to be released. A cancelled one reports
nothing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import httpx
from pydantic import BaseModel, Field

from tarry.demo.ci.webhook import send

Status = Literal["held", "running", "passed", "failed", "cancelled"]

RUNS = ("1", "2", "3")
"""Hash seeds: tests that depend on the order of a set must not pass by luck."""


class Order(BaseModel):
    """What is asked for: the tests of a module in a folder, and the names under which the caller knows the build."""

    repository: Path
    tests: str = Field(pattern=r"^[A-Za-z_][\w.]*$")
    correlation_id: str = Field(min_length=1)
    idempotency_key: str = Field(min_length=1)


class Build(BaseModel):
    """A build as it is answered. `asked`: requests under its key; `answered`: status of its webhook, 0 before."""

    id: str
    order: Order
    status: Status
    asked: int = 1
    answered: int = 0


@dataclass(frozen=True)
class Reports:
    """Where the service keeps logs and serves them, and where and under which secret it reports."""

    logs: Path
    base_url: str
    webhook_url: str
    secret: str


class Builds:
    """All builds of a service, oldest first."""

    def __init__(self, reports: Reports, *, hold: bool) -> None:
        self._reports = reports
        self._first: Status = "held" if hold else "running"
        self._builds: dict[str, Build] = {}
        self._changed = threading.Condition()

    def all(self) -> list[Build]:
        """Copies, as they are now."""
        with self._changed:
            return [build.model_copy() for build in self._builds.values()]

    def start(self, order: Order) -> tuple[Build, bool]:
        """The build of the order's key, and whether it is new."""
        with self._changed:
            if (known := self._of_key(order.idempotency_key)) is not None:
                known.asked += 1
                return known.model_copy(), False
            build = Build(id=f"build-{len(self._builds) + 1}", order=order, status=self._first)
            self._builds[build.id] = build
            threading.Thread(target=self._run, args=(build,), daemon=True).start()
            return build.model_copy(), True

    def release(self, build_id: str) -> Build | None:
        """Let a held build run; None when there is no such build."""
        return self._change(self._builds.get(build_id), "running", only_from=("held",))

    def cancel(self, build_id: str) -> Build | None:
        """Stop a build that is not over. A repeat changes nothing."""
        return self._change(self._builds.get(build_id), "cancelled", only_from=("held", "running"))

    def cancel_key(self, key: str) -> Build | None:
        """`cancel`, for who does not know whether there is a build."""
        return self._change(self._of_key(key), "cancelled", only_from=("held", "running"))

    def _of_key(self, key: str) -> Build | None:
        return next((build for build in self._builds.values() if build.order.idempotency_key == key), None)

    def _change(self, build: Build | None, status: Status, *, only_from: tuple[Status, ...]) -> Build | None:
        with self._changed:
            if build is not None and build.status in only_from:
                build.status = status
                self._changed.notify_all()
            return None if build is None else build.model_copy()

    def _run(self, build: Build) -> None:
        with self._changed:
            self._changed.wait_for(lambda: build.status != "held")
        passed = self._test(build)
        reached = self._change(build, "passed" if passed else "failed", only_from=("running",))
        if reached is not None and reached.status != "cancelled":
            answered = self._report(reached)
            with self._changed:
                build.answered = answered

    def _test(self, build: Build) -> bool:
        """Whether the tests pass under every seed. Of a cancelled build no further run begins."""
        self._reports.logs.mkdir(parents=True, exist_ok=True)
        with (self._reports.logs / f"{build.id}.log").open("ab") as log:
            return all(build.status == "running" and _passes(build.order, seed, log.fileno()) for seed in RUNS)

    def _report(self, build: Build) -> int:
        """The status with which the webhook was answered, 0 when nobody answered."""
        facts = {
            "type": "build.finished",
            "data": {
                "correlation_id": build.order.correlation_id,
                "status": build.status,
                "log_url": f"{self._reports.base_url}/builds/{build.id}/log",
            },
        }
        try:
            return send(self._reports.webhook_url, self._reports.secret, f"{build.id}-finished", facts)
        except httpx.TransportError:
            return 0


def _passes(order: Order, seed: str, log: int) -> bool:
    # A module that was edited within a second looks to its bytecode as it was.
    environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "unittest", "--verbose", order.tests]
    ended = subprocess.run(
        command, cwd=order.repository, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False
    )
    return ended.returncode == 0
