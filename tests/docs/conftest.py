"""The demos, which several tests look at, are each run once for a person and once for a program."""

from __future__ import annotations

import asyncio
import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.programs import TARRY, Ended, end_of, living_in, run, start


@dataclass(frozen=True)
class Story:
    """What a person was told, the run's page and what its Web UI knows of the run meanwhile, and the end by Ctrl-C."""

    lines: list[str]
    page: int
    run: dict[str, Any]
    ended: Ended
    left_behind: list[str]


@dataclass(frozen=True)
class Printed:
    """What a program was told, and the folder it was run in."""

    folder: Path
    ended: Ended
    left_behind: list[str]


@dataclass(frozen=True)
class Demos:
    """`tarry demo policies` and `tarry demo policies --json`."""

    story: Story
    printed: Printed


@pytest.fixture(scope="session")
async def demos(tmp_path_factory: pytest.TempPathFactory) -> Demos:
    """Both at the same time: half of it is waiting."""
    story, printed = await asyncio.gather(
        _told(tmp_path_factory.mktemp("story")), _printed(tmp_path_factory.mktemp("printed"))
    )
    return Demos(story, printed)


async def _told(folder: Path) -> Story:
    process = await start(TARRY, "demo", "policies", "--keep", cwd=folder)
    assert process.stdout is not None
    lines: list[str] = []
    async for line in process.stdout:
        lines.append(line.decode().rstrip())
        if "until Ctrl-C" in lines[-1]:
            break
    (page,) = [line.split()[-1] for line in lines if line.startswith("The run's page")]
    async with httpx.AsyncClient(trust_env=False) as client:
        answer = await client.get(page)
        known = await client.get(re.sub(r"/namespaces/(.+)/[^/]+/history", r"/api/v1/namespaces/\1", page))
    process.send_signal(signal.SIGINT)
    return Story(lines, answer.status_code, known.json(), await end_of(process), living_in(folder))


async def _printed(folder: Path) -> Printed:
    return Printed(folder, await run(TARRY, "demo", "policies", "--json", cwd=folder), living_in(folder))


@dataclass(frozen=True)
class CiDemo:
    """`tarry demo ci` as a person sees it, `tarry demo ci --json` as a program does, and the processes left behind."""

    story: Ended
    printed: Ended
    left_behind: list[str]

    @property
    def lines(self) -> list[str]:
        """What the person was told."""
        return [line.rstrip() for line in self.story.stdout.splitlines()]


@pytest.fixture(scope="session")
async def ci_demo(tmp_path_factory: pytest.TempPathFactory) -> CiDemo:
    """Both at the same time: half of it is waiting."""
    folders = [tmp_path_factory.mktemp("ci") for _ in range(2)]
    story, printed = await asyncio.gather(
        run(TARRY, "demo", "ci", cwd=folders[0]), run(TARRY, "demo", "ci", "--json", cwd=folders[1])
    )
    return CiDemo(story, printed, [process for folder in folders for process in living_in(folder)])
