"""One worker is killed under gated calls at every place between their question and their result (spec §5).

Most share the kill, and the time after it in which no worker is up and answers come.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from signal import SIGSTOP

import pytest
from temporalio.api.enums.v1 import EventType

from tarry.client import Submission
from tarry.embedded import EmbeddedServer
from tests.support import gated_app
from tests.support.gated_drills import GatedDrill, Verdict
from tests.support.parked_drills import call_of, told
from tests.support.waiting import eventually

SIGNALLED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
TASK_STARTED = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
RUN_SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED

ONCE = ["asked", "decided"]
"""What the two passes found of a call that is asked about once."""


@dataclass
class Killed:
    """The drill after the kill, its second worker serving, and every submission by its place."""

    drill: GatedDrill
    submissions: dict[str, Submission]

    async def verdict(self, place: str) -> Verdict:
        return await self.drill.verdict(self.submissions[place])


@pytest.fixture(scope="module")
async def killed(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Killed]:
    """The one kill."""
    async with GatedDrill(server, tmp_path_factory.mktemp("gated"), tracker_url) as on:
        first = await on.worker()
        submissions = {
            "running, safe": await on.submit("safe", stop_at=["in the tool"]),
            "running, unsafe": await on.submit("unsafe", stop_at=["in the tool"]),
            "in a pass": await on.submit("safe", stop_at=["decided"]),
            "frozen": await on.submit("unsafe"),
            "three": await on.submit("unsafe,unsafe,unsafe"),
        }
        asking = {place: await on.gated(submission) for place, submission in submissions.items()}
        three = [await on.gated(submissions["three"], slot) for slot in range(3)]
        for place in ("running, safe", "running, unsafe", "in a pass"):
            await on.decide(asking[place], allow=True)
            arrival = await on.reached(submissions[place])
        arrival.signal(SIGSTOP)  # at once: a pass has four seconds
        await on.decide(asking["frozen"], allow=True)
        await on.happened(asking["frozen"], SIGNALLED, TASK_STARTED)
        await first.kill()
        for slot, allow in ((2, True), (0, False), (1, True)):
            await on.decide(three[slot], allow=allow)
        await on.worker()
        yield Killed(on, submissions)


async def test_worker_killed_in_the_pass_that_an_approval_woke_asks_again_and_runs_the_call_once(
    killed: Killed,
) -> None:
    assert await killed.verdict("in a pass") == Verdict(
        codes=[""], ledger=["safe 1, key 1"], passes=[["asked", "decided", "decided"]]
    )


async def test_approval_that_a_frozen_worker_took_along_is_found_by_the_next_one(killed: Killed) -> None:
    assert await killed.verdict("frozen") == Verdict(codes=[""], ledger=["unsafe 1, key 1"], passes=[ONCE])


async def test_safe_call_killed_in_its_run_is_run_again_and_nobody_is_asked_again(killed: Killed) -> None:
    assert await killed.verdict("running, safe") == Verdict(
        codes=[""], ledger=["safe 1, key 1", "safe 2, key 1"], passes=[ONCE]
    )


async def test_unsafe_call_killed_in_its_run_is_interrupted_and_nobody_is_asked_again(killed: Killed) -> None:
    assert await killed.verdict("running, unsafe") == Verdict(
        codes=["interrupted"], ledger=["unsafe 1, key 1"], passes=[ONCE]
    )


async def test_answers_to_three_gates_in_another_order_each_decide_their_own_call_though_no_worker_was_up(
    killed: Killed,
) -> None:
    verdict = await killed.verdict("three")
    runs = killed.drill.runs(killed.submissions["three"].conversation_id)

    assert (verdict.codes, verdict.passes, verdict.end) == (["denied", "", ""], [ONCE] * 3, "done")
    assert sorted((run.title, run.attempt) for run in runs) == [("1", 1), ("2", 1)]
    assert verdict.failed_tasks == ()


async def test_worker_killed_between_intent_and_run_costs_nothing_and_asks_nobody_again(
    server: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    async with GatedDrill(server, tmp_path, tracker_url, max_concurrent_activities=1) as on:
        first = await on.worker()
        between = await on.submit("unsafe")
        task_id = await on.gated(between)
        # It takes the only place for an activity, for which the run then waits.
        blocker = await on.submit("safe", stop_at=["request"])
        await on.reached(blocker)
        await on.decide(task_id, allow=True)
        await on.happened(task_id, SIGNALLED, RUN_SCHEDULED)

        await first.kill()

        assert told(on.runs(between.conversation_id)) == [], "the run had not begun"
        await on.worker()
        assert await on.verdict(between) == Verdict(codes=[""], ledger=["unsafe 1, key 1"], passes=[ONCE])


async def test_deploys_that_change_the_gates_under_parked_calls_ask_those_that_are_installed_now(
    server: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    """The first deploy removes one gate and adds another, the second removes that, too."""
    async with GatedDrill(server, tmp_path, tracker_url) as on:
        first = await on.worker()
        await on.harness.publish(gated_app.app)
        decided, left = await on.submit("unsafe"), await on.submit("unsafe")
        calls = [await on.gated(submission) for submission in (decided, left)]
        asked = [await on.question(task_id) for task_id in calls]
        await first.kill()

        on.app = "tests.support.gated_app:changed"
        second = await on.worker()
        await on.harness.publish(gated_app.changed)
        other = [f"second:{key}" for key in asked]
        await eventually(lambda: asyncio.gather(*map(on.question, calls)), lambda keys: list(keys) == other)
        await on.decide(calls[0], allow=True)
        assert (await on.verdict(decided)).ledger == ["unsafe 1, key 1"]
        await second.kill()

        on.app = "tests.support.gated_app:ungated"
        await on.harness.publish(gated_app.ungated)
        await on.worker()
        assert (await on.verdict(left)).ledger == ["unsafe 1, key 1"]
        assert [await on.state(call_of(submission)) for submission in (decided, left)] == ["running"] * 2
