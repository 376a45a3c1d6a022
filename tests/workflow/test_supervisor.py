"""The supervisor's shell around the machine, with programs in place of workers (spec §9.4)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tarry.client import ServerUnavailable, WakePlan
from tarry.core.scaling import ScalingRules
from tarry.processes import Child
from tarry.settings import Settings, SettingsError
from tests.support.waiting import eventually
from workers.supervisor import Supervisor, own_folder, rules_of, said
from workers.supervisor_lines import teller

SERVES = "import time; print('ready', flush=True); time.sleep(600)"
CRASHES = "import sys; print('there is no module nowhere'); sys.exit(3)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SERVES}"
NEVER_READY = "import time; time.sleep(600)"
QUICK = ScalingRules(
    quiet=timedelta(seconds=0.1),
    first_pause=timedelta(seconds=0.05),
    longest_pause=timedelta(seconds=0.2),
)
IDLE = WakePlan(active=False)
BACKLOG = WakePlan(active=True, why="backlog")


@dataclass
class Bench:
    """A supervisor whose looks find `plan`, and whose workers are `program`."""

    folder: Path
    program: str
    rules: ScalingRules = QUICK
    plan: WakePlan | Exception = BACKLOG
    said: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    patience: float = 10.0

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(self.look, self.make, self.rules, self.tell, self.patience)

    async def look(self) -> WakePlan:
        if isinstance(self.plan, Exception):
            raise self.plan
        return self.plan

    def make(self, number: int) -> Child:
        command = [sys.executable, "-c", self.program]
        log = self.folder / f"{number}.log"
        return Child("the worker", command, ready="^ready$", log=log, environment=os.environ)

    def tell(self, event: str, **facts: Any) -> None:
        self.said.append((event, facts))

    def of(self, event: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self.said if name == event]

    async def until(self, event: str, number: int = 1) -> list[dict[str, Any]]:
        async def told() -> list[dict[str, Any]]:
            return self.of(event)

        return await eventually(told, lambda found: len(found) >= number)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Bench]:
        running = asyncio.create_task(self.supervisor.run())
        try:
            yield self
        finally:
            self.supervisor.leave()
            await running


async def test_worker_that_dies_again_and_again_is_started_ever_more_rarely(tmp_path: Path) -> None:
    async with Bench(tmp_path, CRASHES).running() as bench:
        deaths = await bench.until("died", 5)
        bench.program = SERVES
        await bench.until("serving")

    assert [facts["code"] for facts in deaths[:5]] == [3] * 5
    assert [round(facts["pause"], 3) for facts in deaths[:5]] == [0.05, 0.1, 0.2, 0.2, 0.2]
    assert [facts["deaths"] for facts in deaths[:5]] == [1, 2, 3, 4, 5]
    assert {facts["reason"] for facts in bench.of("failed")} == {"there is no module nowhere"}
    assert [facts["cause"] for facts in bench.of("started")[:2]] == ["backlog", "replacement"]


async def test_worker_that_does_not_stop_in_its_time_is_ended_by_force(tmp_path: Path) -> None:
    async with Bench(tmp_path, STUBBORN, patience=0.2).running() as bench:
        await bench.until("serving")

    assert [facts["code"] for facts in bench.of("stopped")] == [-9]


async def test_worker_that_is_not_up_yet_is_stopped_too(tmp_path: Path) -> None:
    async with Bench(tmp_path, NEVER_READY).running() as bench:
        await bench.until("started")

    assert [name for name, _ in bench.said if name in ("started", "failed", "died", "stopping", "stopped")] == [
        "started",
        "stopping",
        "stopped",
    ]


async def test_with_the_server_away_workers_stay_and_pokes_and_deadlines_still_start_them(tmp_path: Path) -> None:
    due = datetime.now(UTC) + timedelta(seconds=10.5)
    bench = Bench(tmp_path, SERVES, plan=WakePlan(active=False, at=due))
    async with bench.running():
        await bench.until("plan")
        bench.plan = ServerUnavailable("no server answers")
        [start] = await bench.until("started")
        await bench.until("unreachable")
        await bench.until("serving")

    assert (start["cause"], start["since"]) == ("deadline", due.isoformat())
    assert [facts["why"] for facts in bench.of("stopping")] == ["the supervisor is told to"]


async def test_a_look_that_fails_in_any_way_is_said_once_and_is_not_the_last(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SERVES, plan=KeyError("no such\nattribute"))
    async with bench.running():
        await bench.until("unreachable")
        bench.plan = BACKLOG
        await bench.until("serving")

    assert [facts["reason"] for facts in bench.of("unreachable")] == ["KeyError: 'no such\\nattribute'"]


async def test_a_start_tells_how_long_after_the_poke_its_worker_was_at_work(tmp_path: Path) -> None:
    works = "import time; print('ready', flush=True); print('INFO first work: ci-1~aa', flush=True); time.sleep(600)"
    async with Bench(tmp_path, works, plan=IDLE).running() as bench:
        await bench.until("plan")
        poked = datetime.now(UTC) - timedelta(seconds=2)
        bench.supervisor.poked(poked, "it")
        [working] = await bench.until("working")

    assert (working["work"], working["cause"]) == ("ci-1~aa", "poke")
    assert 2 <= working["seconds"]["started"] < working["seconds"]["ready"] <= working["seconds"]["working"]


async def test_the_first_work_is_found_in_a_log_of_json_lines_too(tmp_path: Path) -> None:
    line = '{"message": "first work: ci-1~aa", "process": "worker"}'
    works = f"import time; print('ready', flush=True); print('{line}', flush=True); time.sleep(600)"
    async with Bench(tmp_path, works).running() as bench:
        [working] = await bench.until("working")

    assert working["work"] == "ci-1~aa"


async def test_every_event_has_a_line_for_people_and_one_for_programs(tmp_path: Path) -> None:
    works = "import time; print('ready', flush=True); print('INFO first work: ci-1~aa', flush=True); time.sleep(600)"
    bench = Bench(tmp_path, works)
    async with bench.running():
        await bench.until("working")
        bench.plan = IDLE
        await bench.until("stopped")
    lines: list[str] = []
    tell = teller(lines.append, lambda: datetime(2026, 1, 1, 12, tzinfo=UTC), as_json=False)
    for event, facts in bench.said:
        tell(event, **facts)

    assert [line.split(maxsplit=1)[1].split(";")[0].split(" (")[0].split(" s after")[0][:28] for line in lines] == [
        "active: tasks wait for a wor",
        "worker 1 starts for tasks th",
        "worker 1 serves",
        lines[3].split(maxsplit=1)[1].split(" s after")[0],
        "idle",
        "worker 1 is told to stop: al",
        "worker 1 ended by SIGTERM",
    ]
    assert lines[3].endswith("): ci-1~aa")


def test_two_supervisors_in_one_folder_keep_their_logs_apart(tmp_path: Path) -> None:
    with own_folder(tmp_path) as one:
        with own_folder(tmp_path) as other:
            assert (one.name, other.name) == ("scale-1", "scale-2")
        with own_folder(tmp_path) as third:
            assert third == other


def test_the_fewest_are_not_more_than_the_most() -> None:
    with pytest.raises(SettingsError, match=r"^TARRY_SCALE_MIN=2 is refused: give at most TARRY_SCALE_MAX, 1$"):
        rules_of(Settings(scale_min=2))


async def test_a_supervisor_that_is_cancelled_stops_its_workers(tmp_path: Path) -> None:
    bench = Bench(tmp_path, SERVES)
    running = asyncio.create_task(bench.supervisor.run())
    await bench.until("serving")
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running

    assert [facts["code"] for facts in bench.of("stopped")] == [-15]


async def test_a_worker_whose_log_is_taken_away_is_looked_after_all_the_same(tmp_path: Path) -> None:
    async with Bench(tmp_path, SERVES).running() as bench:
        [serving] = await bench.until("serving")
        (tmp_path / "1.log").unlink()
        os.kill(serving["pid"], signal.SIGKILL)
        [died] = await bench.until("died")
        await bench.until("serving", 2)

    assert (died["code"], [facts["code"] for facts in bench.of("stopped")]) == (-9, [-15])


def test_a_line_that_nobody_can_read_any_more_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    nobody_reads = os.fdopen(writing, "w")
    monkeypatch.setattr(sys, "stdout", nobody_reads)
    said("worker 1 serves")
    monkeypatch.undo()
    with contextlib.suppress(BrokenPipeError):
        nobody_reads.close()
