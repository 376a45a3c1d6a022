"""One worker is killed with a call at every place that waiting has: what each of them becomes.

They share the kill and the time after it, in which no worker is up and the world goes on.
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
from tarry.core import results
from tarry.embedded import EmbeddedServer
from tests.support import shell
from tests.support.drills import ONCE_EACH
from tests.support.histories import Account
from tests.support.parked_app import DONE, NEWS
from tests.support.parked_drills import Life, ParkedDrill, call_of, told

SECONDS = 4
"""How long the calls wait whose deadline passes while no worker is up: it is set when everything else is in place."""

FIRED = EventType.EVENT_TYPE_TIMER_FIRED
SIGNALLED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
TASK_STARTED = EventType.EVENT_TYPE_WORKFLOW_TASK_STARTED
RUN_SCHEDULED = EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED

WOKEN = f"signal {NEWS.name}/{DONE} after asked"
TWICE = ("completed 1", "completed 1")
"""The two runs of a tool that parks and wakes, when nothing happened to them."""

STOPS = {
    "before the park, safe": ("safe", "before the park"),
    "before the park, unsafe": ("unsafe", "before the park"),
}
WOKEN_STOPS = {
    "woken, safe": ("safe", "in the woken run"),
    "woken, hooked": ("hooked", "in the woken run"),
    "woken, unsafe": ("unsafe", "in the woken run"),
    "reported": ("unsafe", "request after a result"),
}
PARKED = {"parked": "unsafe", "frozen": "unsafe"}
DEADLINES = {"value in time": "unsafe", "value late": "unsafe", "no value": "safe"}


@dataclass
class Killed:
    """The drill after the kill, its second worker serving, and every submission by its place."""

    drill: ParkedDrill
    submissions: dict[str, Submission]

    async def life(self, place: str) -> Life:
        return await self.drill.life(self.submissions[place])


@pytest.fixture(scope="module")
async def killed(
    server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Killed]:
    """The one kill."""
    async with ParkedDrill(server, tmp_path_factory.mktemp("parked"), tracker_url) as on:
        first = await on.worker()
        submissions = await _everywhere(on)
        submissions |= await _parked(on, {place: f"{tool} {SECONDS}" for place, tool in DEADLINES.items()})
        frozen = call_of(submissions["frozen"])
        (await on.reached(submissions["reported"])).signal(SIGSTOP)
        await on.send(frozen, "while frozen", "d")
        await on.happened(frozen, SIGNALLED, TASK_STARTED)
        await first.kill()
        await _meanwhile(on, server, submissions)
        await on.worker()
        yield Killed(on, submissions)


async def _everywhere(on: ParkedDrill) -> dict[str, Submission]:
    """Every call but those with a deadline, each at its place."""
    stopped = {place: await on.submit(tool, stop_at=[point]) for place, (tool, point) in STOPS.items()}
    woken = {place: await on.submit(tool, stop_at=[point]) for place, (tool, point) in WOKEN_STOPS.items()}
    parked = await _parked(on, PARKED)
    for submission in woken.values():
        await on.send(await on.parked_call(submission), "it rains", "d")
    for submission in (*stopped.values(), *(woken[place] for place in WOKEN_STOPS if place != "reported")):
        await on.reached(submission)
    return stopped | woken | parked


async def _parked(on: ParkedDrill, inputs: dict[str, str]) -> dict[str, Submission]:
    submissions = await asyncio.gather(*(on.submit(text) for text in inputs.values()))
    await asyncio.gather(*map(on.parked_call, submissions))
    return dict(zip(inputs, submissions, strict=True))


async def _meanwhile(on: ParkedDrill, server: EmbeddedServer, submissions: dict[str, Submission]) -> None:
    """No worker is up: values come, deadlines pass, and more values come."""
    calls = {place: call_of(submission) for place, submission in submissions.items()}
    await on.send(calls["value in time"], "in time", "d1")
    envelope = f'{{"key": "{DONE}", "value": {{"text": "from a shell"}}, "delivery_id": "d"}}'
    await shell.signal(server, calls["parked"], NEWS.name, envelope)
    for place in DEADLINES:
        await on.happened(calls[place], FIRED)
    for place in ("value in time", "value late"):
        await on.send(calls[place], "too late", "d2")


def interrupted(tool: str, output: str = "") -> str:
    """What the model reads of a run that was cut off."""
    return results.interrupted(tool, output).text


async def test_safe_tool_killed_before_it_parks_has_one_effect_parks_and_is_woken(killed: Killed) -> None:
    submission = killed.submissions["before the park, safe"]
    await killed.drill.send(await killed.drill.parked_call(submission), "it rains", "d")

    assert await killed.life("before the park, safe") == Life(
        results=["it rains"],
        ledger=["safe 1, key 1", "safe 2, key 1", f"safe 1, key 2, {WOKEN}"],
        account=Account(models=ONCE_EACH, tools=("completed 2", "completed 1"), announced=1),
    )


async def test_unsafe_tool_killed_before_it_parks_is_interrupted(killed: Killed) -> None:
    assert await killed.life("before the park, unsafe") == Life(
        results=[interrupted("unsafe")],
        ledger=["unsafe 1, key 1"],
        account=Account(models=ONCE_EACH, tools=("timed out 1",)),
        receipts=(),
        tickets=1,
    )


async def test_signal_from_a_shell_while_no_worker_is_up_wakes_the_call_when_one_is(killed: Killed) -> None:
    assert await killed.life("parked") == Life(
        results=["from a shell"],
        ledger=["unsafe 1, key 1", f"unsafe 1, key 2, {WOKEN}"],
        account=Account(models=ONCE_EACH, tools=TWICE),
    )


async def test_deadline_that_passes_while_no_worker_is_up_expires_the_wait(killed: Killed) -> None:
    assert await killed.life("no value") == Life(
        results=["expired"],
        ledger=["safe 1, key 1", "safe 1, key 2, expired after asked"],
        account=Account(models=ONCE_EACH, tools=TWICE),
        receipts=(),
    )


async def test_value_that_the_server_kept_before_the_deadline_wins_though_both_passed_unseen(killed: Killed) -> None:
    assert await killed.life("value in time") == Life(
        results=["in time"],
        ledger=["unsafe 1, key 1", f"unsafe 1, key 2, {WOKEN}"],
        account=Account(models=ONCE_EACH, tools=TWICE, referees=("completed 1",)),
        receipts=("d1 delivered", "d2 duplicate"),
    )


async def test_value_after_a_deadline_that_nobody_saw_is_closed(killed: Killed) -> None:
    assert await killed.life("value late") == Life(
        results=["expired"],
        ledger=["unsafe 1, key 1", "unsafe 1, key 2, expired after asked"],
        account=Account(models=ONCE_EACH, tools=TWICE, referees=("completed 1",)),
        receipts=("d2 closed",),
    )


async def test_safe_tool_killed_in_its_woken_run_runs_again_with_the_same_wake_checkpoint_and_key(
    killed: Killed,
) -> None:
    woken = f"key 2, {WOKEN}"
    assert await killed.life("woken, safe") == Life(
        results=["it rains"],
        ledger=["safe 1, key 1", f"safe 1, {woken}", f"safe 2, {woken}"],
        account=Account(models=ONCE_EACH, tools=("completed 1", "completed 2"), announced=1),
    )


async def test_unsafe_tool_killed_in_its_woken_run_is_interrupted(killed: Killed) -> None:
    assert await killed.life("woken, unsafe") == Life(
        results=[interrupted("unsafe", "woken\n")],
        ledger=["unsafe 1, key 1", f"unsafe 1, key 2, {WOKEN}"],
        account=Account(models=ONCE_EACH, tools=("completed 1", "timed out 1")),
    )


async def test_cancel_hook_of_an_unsafe_tool_killed_in_its_woken_run_has_its_checkpoint_and_memos(
    killed: Killed,
) -> None:
    life = await killed.life("woken, hooked")
    conversation_id = killed.submissions["woken, hooked"].conversation_id

    assert life == Life(
        results=[interrupted("hooked", "woken\n")],
        ledger=["hooked 1, key 1", f"hooked 1, key 2, {WOKEN}", f"clean-up 2, key 2, {WOKEN}"],
        account=Account(models=ONCE_EACH, tools=("completed 1", "timed out 1"), clean_ups=("completed 1",)),
    )
    (asked, _) = await killed.drill.tickets(conversation_id)
    assert [line for line in killed.drill.lines("cleaned") if line["conversation_id"] == conversation_id] == [
        {"conversation_id": conversation_id, "memo": asked, "checkpoint": "asked"}
    ]


async def test_woken_tool_killed_after_its_result_was_reported_never_runs_again(killed: Killed) -> None:
    assert await killed.life("reported") == Life(
        results=["it rains"],
        ledger=["unsafe 1, key 1", f"unsafe 1, key 2, {WOKEN}"],
        account=Account(models=("completed 1", "timed out 1", "completed 1"), tools=TWICE),
        kinds=("user", "assistant", "tool_result", "note", "assistant"),
    )


async def test_wake_that_a_frozen_worker_took_along_is_decided_again_and_its_tool_runs_once(killed: Killed) -> None:
    assert await killed.life("frozen") == Life(
        results=["while frozen"],
        ledger=["unsafe 1, key 1", f"unsafe 1, key 2, {WOKEN}"],
        account=Account(models=ONCE_EACH, tools=TWICE),
    )


async def test_worker_killed_between_the_intent_of_a_wake_and_its_run_costs_nothing(
    server: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    async with ParkedDrill(server, tmp_path, tracker_url, max_concurrent_activities=1) as on:
        first = await on.worker()
        between = await on.submit("unsafe")
        task_id = await on.parked_call(between)
        # It takes the only place for an activity, for which the woken run then waits.
        blocker = await on.submit("safe", stop_at=["request"])
        await on.reached(blocker)
        await on.send(task_id, "it rains", "d")
        await on.happened(task_id, SIGNALLED, RUN_SCHEDULED)

        await first.kill()

        assert told(on.runs(between.conversation_id)) == ["unsafe 1, key 1"], "the woken run had not begun"
        await on.worker()
        assert await on.life(between) == Life(
            results=["it rains"],
            ledger=["unsafe 1, key 1", f"unsafe 1, key 2, {WOKEN}"],
            account=Account(models=ONCE_EACH, tools=TWICE),
        )
