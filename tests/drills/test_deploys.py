"""Two builds of workers, calls parked across the deploy and across the step back (spec §22)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tarry.client import Submission
from tarry.embedded import EmbeddedServer
from tests.support.deployed_app import HOLD
from tests.support.deployed_drills import DeployedDrill, Went

NAP = 10
"""Seconds: longer than a kill takes."""

Drills = Callable[[], DeployedDrill]


@pytest.fixture
def drills(server: EmbeddedServer, tracker_url: str, tmp_path: Path) -> Drills:
    """Makes a drill with builds."""
    return lambda: DeployedDrill(server, tmp_path, tracker_url)


@dataclass
class Deployed:
    """The drill after the deploy and the kill of the old build's worker, and every submission by what it waits for."""

    drill: DeployedDrill
    submissions: dict[str, Submission]

    async def went(self, what: str) -> Went:
        return await self.drill.went(self.submissions[what])


@pytest.fixture(scope="module")
async def deployed(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Deployed]:
    """The one deploy: parked by v1, which is killed; v2 has other gates and tools, and one more step in a workflow."""
    async with DeployedDrill(server, tmp_path_factory.mktemp("deployed"), tracker_url) as on:
        old = await on.build("v1")
        await on.make_current("v1")
        inputs = {"signal": "ring", "gate": "ship", "subagent": "delegate"}
        submissions = {what: await on.submit(text) for what, text in inputs.items()}
        ring, ship = await on.parked("ring"), await on.parked("ship", "gated")
        asked = await on.parked("hear", of_agent=True)
        await on.parked("wait_agent")
        await on.build("v2", DRILL_CHANGED="guarded")
        submissions["time"] = await on.submit(f"nap {NAP}")
        await on.parked("nap")
        await old.kill()
        await on.make_current("v2")
        await on.tell(ring, "bells")
        await on.tell(asked, "bells")
        await on.tell(ship, "yes", "budget")
        await on.tell(ship, "yes", "security")
        yield Deployed(on, submissions)


async def test_call_parked_on_a_signal_goes_on_with_the_new_build_once(deployed: Deployed) -> None:
    assert await deployed.went("signal") == Went(
        "v2 heard bells, loud: True; v2 confirmed", ["v1 ring", "v2 ring", "v2 confirm"]
    )


async def test_call_parked_until_a_time_goes_on_with_the_new_build_once(deployed: Deployed) -> None:
    assert await deployed.went("time") == Went("v2 is awake; v2 confirmed", ["v1 nap", "v2 nap", "v2 confirm"])


async def test_call_parked_at_gates_asks_those_of_the_new_build_and_runs_once(deployed: Deployed) -> None:
    assert await deployed.went("gate") == Went("v2 shipped; v2 confirmed", ["v2 ship", "v2 confirm"])
    passes = [line["point"] for line in deployed.drill.lines("passes")]
    assert passes[0] == "v1 people asks"
    assert {point.split()[1] for point in passes if point.startswith("v2")} == {"budget", "security"}
    assert passes[-1] == "v2 security answered"


async def test_agent_and_who_waits_for_it_go_on_with_the_new_build(deployed: Deployed) -> None:
    went = await deployed.went("subagent")

    assert "v2 heard bells; v2 confirmed" in went.answer
    assert went.failed_tasks == ()


async def test_every_workflow_goes_on_with_the_build_that_is_current(deployed: Deployed) -> None:
    assert await deployed.drill.behaviours() == {"AutoUpgrade"}


async def test_step_back_takes_along_what_the_newer_build_has_parked(drills: Drills) -> None:
    async with drills() as on:
        await on.build("v1")
        newer = await on.build("v2")
        await on.make_current("v2")
        submissions = {text: await on.submit(text) for text in ("hear", "ring", "ship")}
        parked = [await on.parked("hear"), await on.parked("ring")]
        ship = await on.parked("ship", "gated")
        await on.make_current("v1")
        assert await on.stop(newer) == 0
        for task_id in parked:
            await on.tell(task_id, "bells")
        await on.tell(ship, "yes", "people")
        await on.tell(ship, "yes", "budget")

        assert await on.went(submissions["hear"]) == Went("v1 heard bells", ["v2 hear", "v1 hear"])
        assert await on.went(submissions["ship"]) == Went("v1 shipped", ["v1 ship"])
        ring = await on.went(submissions["ring"])
    assert ring.runs == ["v2 ring"], "its arguments do not fit the older declaration"
    assert "was interrupted" in ring.answer


async def test_change_without_its_guard_fails_and_a_step_back_mends_it(drills: Drills) -> None:
    async with drills() as on:
        await on.build("v1")
        await on.make_current("v1")
        submission = await on.submit("hear")
        hear = await on.parked("hear")
        newer = await on.build("v2", DRILL_CHANGED="forgotten")
        await on.make_current("v2")
        await on.tell(hear, "bells")
        await on.failed(hear)
        await on.make_current("v1")
        assert await on.stop(newer) == 0

        went = await on.went(submission)

        assert (went.answer, went.runs) == ("v1 heard bells", ["v1 hear", "v1 hear"])


async def test_step_back_below_a_guard_holds_what_has_passed_it_until_the_way_forward(drills: Drills) -> None:
    async with drills() as on:
        await on.build("v1")
        await on.build("v2", DRILL_CHANGED="guarded")
        await on.make_current("v2")
        submission = await on.submit("hear")
        hear = await on.parked("hear")
        await on.make_current("v1")
        await on.tell(hear, "bells")
        await on.failed(hear)
        await on.make_current("v2")

        went = await on.went(submission)

        assert (went.answer, went.runs) == (
            "v2 heard bells; v2 confirmed",
            ["v2 hear", "v2 hear", "v2 confirm"],
        )


async def test_tool_that_runs_on_during_a_step_back_reads_what_it_was_told_when_a_build_fits_again(
    drills: Drills,
) -> None:
    """What it asks its call is answered by nobody meanwhile, and that is no failure of it."""
    async with drills() as on:
        await on.build("v1")
        await on.build("v2", DRILL_CHANGED="guarded")
        await on.make_current("v2")
        submission = await on.submit("hear")
        hear = await on.parked("hear")
        (hold := on.folder / HOLD).touch()
        await on.tell(hear, "bells")
        await on.begun(2)
        await on.make_current("v1")
        await on.misfit(hear)
        hold.unlink()
        await on.misfit(hear)
        await on.make_current("v2")

        went = await on.went(submission)

        assert (went.answer, went.runs) == (
            "v2 heard bells; v2 confirmed",
            ["v2 hear", "v2 hear", "v2 confirm"],
        )


async def test_worker_whose_build_is_not_current_says_so_and_commands_that_wait_do_too(drills: Drills) -> None:
    async with drills() as on:
        worker = await on.build("v1")
        await on.logged(worker, f"given no work of task queue {on.settings.task_queue}, no build is current")
        asked = await on.tarry("ask", "hear")
        before = await on.status()
        await on.make_current("v1")
        await on.logged(worker, f"build v1 of {on.deployment} is current")
        after = await on.status()

    assert asked.code == 2
    assert asked.err.count("\n") == 1
    assert "`tarry deploy current v1`" in asked.err
    assert [(found["current"], found["builds"][0]["status"]) for found in (before, after)] == [
        (None, "inactive"),
        ("v1", "current"),
    ]
