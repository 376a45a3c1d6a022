"""A Stop and a SIGTERM meet work that waits: what is outside is cleaned up, and nothing is lost or counted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tarry.client import Submission
from tarry.core import results
from tarry.embedded import EmbeddedServer
from tests.support.drills import ONCE_EACH
from tests.support.histories import Account
from tests.support.parked_app import DONE, NEWS
from tests.support.parked_drills import Life, ParkedDrill, call_of

WOKEN = f"signal {NEWS.name}/{DONE} after asked"
TWICE = ("completed 1", "completed 1")
STOPPED = "unanswered aborted"
CUT_SHORT = ("user", "assistant", "tool_result")

LONG = "300"
"""Seconds of grace that nothing which waits may use."""


@dataclass
class Ended:
    """The drill after its last worker started, and every submission by its place."""

    drill: ParkedDrill
    submissions: dict[str, Submission]

    async def life(self, place: str) -> Life:
        return await self.drill.life(self.submissions[place])

    async def cleaned(self, place: str) -> list[str]:
        """The checkpoints with which hooks cleaned up in a conversation; each had the memo of the first run."""
        conversation_id = self.submissions[place].conversation_id
        asked, *_ = await self.drill.tickets(conversation_id)
        lines = [line for line in self.drill.lines("cleaned") if line["conversation_id"] == conversation_id]
        assert [line["memo"] for line in lines] == [asked] * len(lines)
        return [line["checkpoint"] for line in lines]


@pytest.fixture(scope="module")
async def aborted(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Ended]:
    """One call is stopped and its worker killed in its hook; others are stopped while no worker is up."""
    async with ParkedDrill(server, tmp_path_factory.mktemp("aborted"), tracker_url) as on:
        first = await on.worker()
        submissions = {
            "in the hook": await on.submit("hooked", stop_at=["in the hook"]),
            "no worker": await on.submit("hooked"),
            "one call": await on.submit("unsafe"),
        }
        for submission in submissions.values():
            await on.parked_call(submission)
        await on.harness.conversation(submissions["in the hook"].conversation_id).abort()
        await on.reached(submissions["in the hook"])
        await first.kill()
        await on.harness.conversation(submissions["no worker"].conversation_id).abort()
        assert await on.harness.abort(call_of(submissions["one call"]))
        await on.send(call_of(submissions["one call"]), "too late", "d")
        await on.worker()
        yield Ended(on, submissions)


@pytest.fixture(scope="module")
async def terminated(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Ended]:
    """SIGTERM to a worker with nothing but parked work, then to one with two woken runs; a crash would be counted."""
    async with ParkedDrill(server, tmp_path_factory.mktemp("sigterm"), tracker_url, restart_limit=1) as on:
        patient = await on.worker(TARRY_SHUTDOWN_GRACE=LONG)
        parked = await on.submit("unsafe")
        woken = {tool: await on.submit(tool, stop_at=["in the woken run"]) for tool in ("safe", "hooked")}
        for submission in (parked, *woken.values()):
            await on.parked_call(submission)
        assert await on.stop(patient) == 0
        for submission in woken.values():
            await on.send(call_of(submission), "it rains", "d")
        busy = await on.worker()
        for submission in woken.values():
            await on.reached(submission)
        assert await on.stop(busy) == 0
        await on.send(call_of(parked), "it rains", "d")
        await on.worker()
        yield Ended(on, {"parked": parked, **woken})


def stopped(tool: str) -> str:
    """What the record says of a call that was stopped while it was parked."""
    return results.aborted(tool, waited=True).text


async def test_hook_that_is_killed_is_run_again_and_leaves_one_aborted_result(aborted: Ended) -> None:
    assert await aborted.life("in the hook") == Life(
        results=[stopped("hooked")],
        ledger=["hooked 1, key 1", "clean-up 2, key 1 after asked", "clean-up 3, key 1 after asked"],
        account=Account(models=("completed 1",), tools=("completed 1",), clean_ups=("completed 2",)),
        receipts=(),
        tickets=1,
        end=STOPPED,
        kinds=CUT_SHORT,
    )
    assert await aborted.cleaned("in the hook") == ["asked"]


async def test_stop_while_no_worker_is_up_cleans_up_when_one_is(aborted: Ended) -> None:
    assert await aborted.life("no worker") == Life(
        results=[stopped("hooked")],
        ledger=["hooked 1, key 1", "clean-up 2, key 1 after asked"],
        account=Account(models=("completed 1",), tools=("completed 1",), clean_ups=("completed 1",)),
        receipts=(),
        tickets=1,
        end=STOPPED,
        kinds=CUT_SHORT,
    )
    assert await aborted.cleaned("no worker") == ["asked"]


async def test_value_after_a_stop_is_closed_though_no_worker_saw_either_and_the_run_goes_on(aborted: Ended) -> None:
    assert await aborted.life("one call") == Life(
        results=[stopped("unsafe")],
        ledger=["unsafe 1, key 1"],
        account=Account(models=ONCE_EACH, tools=("completed 1",)),
        receipts=("d closed",),
        tickets=1,
    )


async def test_worker_with_nothing_but_parked_work_leaves_at_once(terminated: Ended) -> None:
    assert await terminated.life("parked") == Life(
        results=["it rains"],
        ledger=["unsafe 1, key 1", f"unsafe 1, key 2, {WOKEN}"],
        account=Account(models=ONCE_EACH, tools=TWICE),
    )


async def test_woken_run_past_the_grace_is_given_back_and_runs_again_with_its_wake_uncounted(
    terminated: Ended,
) -> None:
    assert await terminated.life("safe") == Life(
        results=["it rains"],
        ledger=["safe 1, key 1", *(f"safe {n}, key 2, {WOKEN}" for n in (1, 2))],
        account=Account(models=ONCE_EACH, tools=("completed 1", "failed 1", "completed 1")),
    )


async def test_unsafe_woken_run_past_the_grace_is_cleaned_up_and_interrupted(terminated: Ended) -> None:
    assert await terminated.life("hooked") == Life(
        results=[results.interrupted("hooked", "woken\n").text],
        ledger=["hooked 1, key 1", f"hooked 1, key 2, {WOKEN}", f"clean-up 2, key 2, {WOKEN}"],
        account=Account(models=ONCE_EACH, tools=("completed 1", "failed 1"), clean_ups=("completed 1",)),
    )
    assert await terminated.cleaned("hooked") == ["asked"]
