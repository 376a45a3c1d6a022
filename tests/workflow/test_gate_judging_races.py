"""A pass that was made with the value that wakes a call counts if it is the one that would be made now (spec §5.7).

A `Guard` notes each pass with the keys that held a value in it.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from signals.parking import Sleep
from tarry.core.gates import ASK_GATES, TELL_RESULT
from tarry.core.protocol import TOOL_RUN, RunSettings
from tarry.core.waiting import JUDGE, REFEREE
from tarry.embedded import EmbeddedServer
from tarry.hooks import CallResult, Gate, HookApi, HookCall
from tests.support.gating import Guard, Ledger, gate, gated_app, start_gated
from tests.support.guarded import activities, asks_only, end_of, parked
from tests.support.parking import ANSWER, YES, Answer, counts, workflows_only
from tests.support.stage import idle_stage, stage
from tests.support.waiting import PATIENCE, eventually

SOON = timedelta(seconds=8)
"""Far enough for what has to come before it, also on a machine that is ten times as slow."""

BAD = {"text": 5}
GO, ON = ANSWER.key("go"), ANSWER.key("on")


async def test_something_else_that_comes_meanwhile_asks_everybody_anew_and_memos_of_both_passes_are_kept(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go", looks_at="early", held=(2,))
    told: list[object] = []

    def hears(call: HookCall, result: CallResult, api: HookApi) -> None:
        told.append([api.memo_sync(f"after {found}", "lost") for found in ("", "go", "go early")])

    ledger = Ledger()
    app = gated_app(ledger.edit, gate(guard, io=True), gate(after=hears, name="ears"))
    async with stage(server, app, tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.waits_for(GO)
        await call.value("go")
        await guard.asked(2)
        await call.value("early")
        guard.go.set()
        end = await end_of(call)

    assert end == ("", ["delivered", "delivered"], [ASK_GATES, ASK_GATES, JUDGE, ASK_GATES, TOOL_RUN, TELL_RESULT])
    assert (guard.passes, len(ledger.runs), told) == (["", "go", "go early"], 1, [[1, 2, 3]])


async def test_a_refused_value_that_comes_meanwhile_asks_everybody_anew(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go", held=(2,))
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.in_the_pass()
        await scene.call.value("early", value=BAD)
        guard.go.set()
        end = await end_of(scene.call)

    assert end == ("", ["delivered", "invalid"], [ASK_GATES, ASK_GATES, JUDGE, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go", "go"]


async def test_another_awaited_value_that_comes_meanwhile_is_judged_by_a_pass_with_both(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go", "on", together=True, held=(2,))
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.in_the_pass()
        await scene.call.value("on")
        guard.go.set()
        end = await end_of(scene.call)

    assert end == ("", ["delivered", "delivered"], [ASK_GATES, ASK_GATES, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go", "go on"]


async def test_a_flood_around_the_value_costs_one_more_pass(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go")
    async with parked(server, tmp_path, guard) as scene:
        for number in range(250):
            await scene.call.value("go" if number == 50 else f"junk {number}", value=YES if number % 2 == 0 else BAD)
        async with scene.on.worker():
            code, answers, asked = await end_of(scene.call)

    assert (code, answers.count("delivered")) == ("", 125)
    assert asked == [ASK_GATES, ASK_GATES, JUDGE, JUDGE, ASK_GATES, TOOL_RUN]
    assert guard.passes == ["", "go", "go"]


async def test_a_pass_that_made_the_call_wait_for_a_time_is_not_taken_for_the_one_after_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard, ledger = Guard("go"), Ledger()

    def rests(call: HookCall, api: HookApi) -> Gate:
        until = datetime.fromisoformat(api.memo_sync("until", (api.now() + timedelta(seconds=1)).isoformat()))
        return None if api.now() >= until else Sleep(until=until)

    async with stage(server, gated_app(ledger.edit, gate(guard), gate(rests, name="rests")), tmp_path) as on:
        call = await start_gated(on, "edit", path="a.txt")
        await call.waits_for(GO)
        await call.value("go")
        end = await end_of(call)

    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, ASK_GATES, TOOL_RUN])
    assert (guard.passes, len(ledger.runs)) == (["", "go", "go"], 1)


async def test_a_repeat_of_the_value_that_comes_meanwhile_changes_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go", held=(2,))
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.call.value("go", delivery_id="d")
        await guard.asked(2)
        await scene.call.value("go", delivery_id="d")
        await scene.sees("WORKFLOW_EXECUTION_SIGNALED", 2)
        guard.go.set()
        end = await end_of(scene.call)

    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go"]


async def test_a_client_whose_gates_are_slow_is_told_accepted_and_they_are_asked_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go", held=(2,))
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        told = await scene.on.harness.signal(scene.call.id, ANSWER, "go", Answer(text="yes"))
        await scene.sees("WORKFLOW_EXECUTION_SIGNALED")
        guard.go.set()
        end = await end_of(scene.call)
        (receipt,) = await scene.call.receipts()

    assert (told.answer, receipt.delivery_id) == ("accepted", told.delivery_id)
    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go"]


@pytest.mark.parametrize("newer", [True, False])
async def test_another_registry_that_is_announced_meanwhile_is_asked_anew_and_the_same_one_is_not(
    server: EmbeddedServer, tmp_path: Path, newer: bool
) -> None:
    guard = Guard("go", held=(2,))
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.in_the_pass()
        await scene.call.reask("newer" if newer else scene.on.app.registry.fingerprint)
        guard.go.set()
        end = await end_of(scene.call)

    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, *[ASK_GATES] * newer, TOOL_RUN])
    assert guard.passes == ["", "go", *["go"] * newer]


async def test_a_value_that_comes_with_a_deploy_is_judged_by_the_gates_of_now_in_one_pass(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard, added = Guard("go"), Guard(looks_at="go")
    async with parked(server, tmp_path, guard) as scene:
        new = gated_app(scene.ledger.edit, gate(guard, io=True), gate(added, name="added"))
        await scene.call.reask(new.registry.fingerprint)
        await scene.call.value("go")
        async with scene.on.worker(new):
            end = await end_of(scene.call)

    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, TOOL_RUN])
    assert (guard.passes, added.passes) == (["", "go"], ["go"])


async def test_a_memo_that_somebody_else_wrote_meanwhile_stays(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go", held=(2,))
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.in_the_pass()
        memo = {"key": "after go", "value": "theirs", "run": 1, "attempt": 1}
        assert await scene.call.handle.execute_update("tarry.memo", memo) == "theirs"
        guard.go.set()
        end = await end_of(scene.call)

    assert end[0] == ""
    assert guard.passes == ["", "go"]


async def test_a_pass_is_not_carried_over_a_turn_of_the_run(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go")
    settings = RunSettings(heartbeat_timeout=4.0, turnover_events=14)
    async with parked(server, tmp_path, guard, settings) as scene, scene.on.worker():
        await scene.call.value("go")
        end = await end_of(scene.call)
        runs = await scene.call.runs()

    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, ASK_GATES, TOOL_RUN])
    assert (len(runs), activities(runs[1])) == (2, [ASK_GATES, TOOL_RUN])
    assert (guard.passes, len(scene.ledger.runs)) == (["", "go", "go"], 1)


async def test_without_a_cache_everything_replays_and_the_pass_counts(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go", "on", looks_at="early", held=(2,))
    async with parked(server, tmp_path, guard, max_cached_workflows=0) as scene, scene.on.worker():
        await scene.in_the_pass()
        await scene.call.value("early")
        guard.go.set()
        await scene.call.waits_for(ON)
        await scene.call.update("on", YES, signal=ANSWER.name)
        end = await end_of(scene.call)

    told = [ASK_GATES, ASK_GATES, JUDGE, ASK_GATES, ASK_GATES, TOOL_RUN]
    assert end == ("", ["delivered", "delivered", "delivered"], told)
    assert guard.passes == ["", "go", "go early", "go on early"]


async def test_value_and_stop_in_one_task_ask_nobody_and_the_value_is_closed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go")
    async with parked(server, tmp_path, guard) as scene:
        await scene.call.value("go")
        await scene.call.handle.cancel()
        async with scene.on.worker():
            end = await end_of(scene.call)

    assert end == ("aborted", ["closed"], [ASK_GATES])
    assert (guard.passes, scene.ledger.runs) == ([""], [])


async def test_a_stop_during_the_pass_ends_it_at_once(server: EmbeddedServer, tmp_path: Path) -> None:
    guard = Guard("go", held=(2,))
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.in_the_pass()
        async with asyncio.timeout(PATIENCE):
            await scene.call.handle.cancel()
            end = await end_of(scene.call)
        guard.go.set()

    assert end == ("aborted", ["closed"], [ASK_GATES, ASK_GATES])
    assert scene.ledger.runs == []


@pytest.mark.parametrize("stop_first", [True, False])
async def test_a_stop_in_the_task_of_the_passs_end_closes_the_value_and_keeps_the_memos(
    server: EmbeddedServer, tmp_path: Path, stop_first: bool
) -> None:
    guard = Guard("go", held=(2,))
    told: list[object] = []

    def hears(call: HookCall, result: CallResult, api: HookApi) -> None:
        told.append([result.code, api.memo_sync("after go", "lost")])

    ledger = Ledger()
    app = gated_app(ledger.edit, gate(guard, hears, io=True))
    async with idle_stage(server, app, tmp_path) as on:
        async with asks_only(on):
            async with workflows_only(on):
                call = await start_gated(on, "edit", RunSettings(heartbeat_timeout=60), path="a.txt")
                await call.waits_for(GO)
                await call.value("go")
                await guard.asked(2)
            if stop_first:
                await call.handle.cancel()
            guard.go.set()
            await eventually(call.events, lambda found: counts(found).get("ACTIVITY_TASK_COMPLETED", 0) == 2)
            if not stop_first:
                await call.handle.cancel()
        async with on.worker():
            end = await end_of(call)

    assert end == ("aborted", ["closed"], [ASK_GATES, ASK_GATES, TELL_RESULT])
    assert (told, ledger.runs) == ([["aborted", 2]], [])


async def passed(deadline: datetime | None) -> None:
    """Return when the deadline is over, by the clock that the server shares with this test."""
    assert deadline is not None
    await asyncio.sleep(max((deadline - datetime.now(UTC)).total_seconds(), 0) + 0.01)


async def test_a_deadline_that_passes_during_the_pass_loses_to_the_value_that_came_before_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    guard = Guard("go", held=(2,), until=SOON)
    async with parked(server, tmp_path, guard) as scene, scene.on.worker():
        await scene.in_the_pass()
        await passed(scene.until)
        await scene.sees("TIMER_FIRED")
        guard.go.set()
        end = await end_of(scene.call)

    assert end == ("", ["delivered"], [ASK_GATES, ASK_GATES, TOOL_RUN])
    assert guard.passes == ["", "go"]


@pytest.mark.parametrize("in_time", [True, False])
async def test_value_that_is_first_seen_after_the_deadline_is_judged_alone_and_the_history_decides(
    server: EmbeddedServer, tmp_path: Path, in_time: bool
) -> None:
    guard = Guard("go", until=SOON)
    async with parked(server, tmp_path, guard) as scene:
        if in_time:
            await scene.call.value("go")
        await passed(scene.until)
        if not in_time:
            await scene.call.value("go")
        async with scene.on.worker():
            end = await end_of(scene.call)

    expected = ("", ["delivered"]) if in_time else ("expired", ["closed"])
    assert end == (*expected, [ASK_GATES, JUDGE, REFEREE, ASK_GATES, *[TOOL_RUN] * in_time])
    assert guard.passes == ["", "go" if in_time else ""]
