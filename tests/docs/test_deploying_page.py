"""docs/deploying.md: its way through a deploy and back is gone with real processes; Temporal knows the commands."""

from __future__ import annotations

import json
import re
import signal
import sys
from asyncio.subprocess import Process
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tests.docs.tables import rows
from tests.support.programs import ROOT, Ended, end_of, living_in, run, start
from tests.support.waiting import eventually

PAGE = (ROOT / "docs" / "deploying.md").read_text()
BLOCKS = re.findall(r"^```bash\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
[PROGRAM] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
SERVER = "temporal-dev/start.sh"
CTRL_C = re.compile(r"^# Ctrl-C in the terminal of (\w+)$")
BUILD = re.compile(r"TARRY_BUILD=(\w+)")


@dataclass
class Walked:
    """The ends of all blocks that end by themselves, by their text; of the workers, and what was left behind."""

    ends: dict[str, Ended] = field(default_factory=dict)
    workers: list[Ended] = field(default_factory=list)
    left_behind: list[str] = field(default_factory=list)

    def said(self, beginning: str) -> list[str]:
        """What blocks with such a line have printed."""
        return [ended.stdout for block, ended in self.ends.items() if f"\n{beginning}" in f"\n{block}"]


@dataclass
class Terminals:
    """Where the blocks are run."""

    folder: Path
    address: str
    walked: Walked = field(default_factory=Walked)
    workers: dict[str, Process] = field(default_factory=dict)

    async def type(self, block: str) -> None:
        """Run a block, or have a worker in another terminal."""
        if block.strip() == SERVER:
            return
        if told := CTRL_C.match(block):
            await self.stop(told.group(1))
        elif "tarry worker" in block:
            await self.serve(block.strip())
        else:
            ended = await run("bash", "-e", "-c", block, cwd=self.folder, TEMPORAL_ADDRESS=self.address)
            self.walked.ends[block] = ended
            if "tarry submit" in block:
                await eventually(self.parked, lambda calls: calls == 2)

    async def serve(self, command: str) -> None:
        [build] = BUILD.findall(command)
        assignments, _, program = command.partition(" .venv")
        process = await start(
            "bash", "-c", f"{assignments} exec .venv{program}", cwd=self.folder, TEMPORAL_ADDRESS=self.address
        )
        self.workers[build] = process
        assert process.stdout is not None
        assert await process.stdout.readline() == b"ready\n"

    async def stop(self, build: str) -> None:
        process = self.workers.pop(build)
        process.send_signal(signal.SIGINT)
        self.walked.workers.append(await end_of(process))

    async def parked(self) -> int:
        """How many calls are."""
        listed = await run(".venv/bin/tarry", "ps", "--json", cwd=self.folder, TEMPORAL_ADDRESS=self.address)
        return sum(item["state"] == "sleeping" for item in json.loads(listed.stdout)["work"])


@pytest.fixture(scope="module")
async def walked(tmp_path_factory: pytest.TempPathFactory) -> Walked:
    """All blocks, in order."""
    folder = tmp_path_factory.mktemp("deploying")
    (folder / ".venv").symlink_to(sys.prefix)
    (folder / "v1").mkdir()
    (folder / "v1" / "agents.py").write_text(PROGRAM)
    async with EmbeddedServer() as server:
        terminals = Terminals(folder, server.address)
        try:
            for block in BLOCKS:
                await terminals.type(block)
        finally:
            for build in list(terminals.workers):
                await terminals.stop(build)
    terminals.walked.left_behind = living_in(folder)
    return terminals.walked


def test_every_block_ends_well_and_leaves_no_process(walked: Walked) -> None:
    assert [(block, ended.stderr) for block, ended in walked.ends.items() if ended.code] == []
    assert [ended.code for ended in walked.workers] == [0, 0, 0]
    assert walked.left_behind == []


def test_a_worker_that_is_not_current_yet_says_what_to_do(walked: Walked) -> None:
    first = walked.workers[0].stderr

    assert "workers of build v1 of orders are given no work" in first
    assert "`tarry deploy current v1`" in first


def test_parked_calls_go_on_with_the_build_that_the_page_says(walked: Walked) -> None:
    first, second = walked.said(".venv/bin/tarry wait")

    assert "v2 heard yes" in first
    assert "v1 heard yes" in second


def test_status_tells_who_is_given_work(walked: Walked) -> None:
    before, ramping, after = walked.said(".venv/bin/tarry deploy status")
    facts = json.loads(after.splitlines()[-1])

    assert "build v1 of orders is current on task queue tarry" in before
    assert "10% of the workflows go to build v2" in ramping
    assert (facts["current"], facts["failing"]) == ("v1", 0)
    assert {one["build"]: one["status"] for one in facts["builds"]} == {"v1": "current", "v2": "replaced"}


async def test_commands_of_temporal_are_known_to_it() -> None:
    commands = [cells[1].strip("`") for cells in rows(PAGE) if cells[0].startswith("`")][1:]
    assert len(commands) == 4

    temporal = str(Path(sys.executable).with_name("temporal"))
    for command in commands:
        name, *options = command.split()
        shown = (await run(temporal, "worker", "deployment", name, "--help", cwd=ROOT)).stdout
        assert [option for option in options if option.startswith("--") and option not in shown] == []
