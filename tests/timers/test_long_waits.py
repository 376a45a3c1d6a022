"""Waits of hours and days: when they end, and that nothing moves their end (spec §3.7, §3.9, §3.11)."""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import pairwise

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.tools import tool
from tests.support.parking import ANSWER, HOUR, QUICK, YES, Call, Waits, names, start, waiting_app, wedges
from tests.timers.conftest import Clock

DAY = timedelta(days=1)
KEY = ANSWER.key("done")
MOMENT = timedelta(seconds=5)


async def lasted(call: Call) -> timedelta:
    """From the start of its first run to the end of its last."""
    runs = await call.runs()
    return runs[-1][-1].event_time.ToDatetime() - runs[0][0].event_time.ToDatetime()


async def test_deadline_of_three_days_expires_after_three_days(clock: Clock) -> None:
    waits = Waits(Sleep(signals=[KEY], until=3 * DAY))
    on = clock.stage(waiting_app(waits.tool))
    async with on.worker():
        call = await start(on, waits.tool)
        await call.parked()
        await clock.environment.sleep(4 * DAY)
        outcome = await call.ends()
        history = await call.history()

    assert outcome.text == "expired"
    assert timedelta(0) <= await lasted(call) - 3 * DAY < MOMENT
    assert abs(outcome.facts.duration_ms / 1_000 - (3 * DAY).total_seconds()) < MOMENT.total_seconds()
    assert names(history).count("TIMER_STARTED") == 1
    assert wedges(history) == []


async def test_signal_after_thirty_days_wakes_and_not_one_event_was_added_meanwhile(clock: Clock) -> None:
    waits = Waits(Sleep(signals=[KEY]))
    on = clock.stage(waiting_app(waits.tool))
    async with on.worker():
        call = await start(on, waits.tool)
        await call.parked()
        before = len(await call.events())
    await clock.environment.sleep(30 * DAY)
    async with on.worker():
        assert len(await call.events()) == before
        assert (await call.update("done", YES)).answer == "delivered"
        outcome = await call.ends()

    assert outcome.text == "signal test.answer/done: yes"
    assert outcome.facts.duration_ms >= 30 * DAY / timedelta(milliseconds=1)


async def test_tool_that_polls_with_backoff_for_a_week_turns_over_and_keeps_what_it_has(clock: Clock) -> None:
    polled: list[datetime] = []
    memos: set[int] = set()

    @tool
    def polls(api: ToolApi) -> Sleep | str:
        number = api.checkpoint or 0
        polled.append(api.now())
        memos.add(api.memo_sync("first", number))
        if api.now() - polled[0] >= 7 * DAY:
            return f"polled {number} times"
        return Sleep(checkpoint=number + 1, until=min(HOUR, timedelta(minutes=2 ** min(number, 6))))

    on = clock.stage(waiting_app(polls), max_cached_workflows=10)
    async with on.worker():
        call = await start(on, polls, QUICK.model_copy(update={"turnover_events": 100}))
        await clock.environment.sleep(8 * DAY)
        outcome = await call.ends()
        runs = await call.runs()

    pauses = [later - earlier for earlier, later in pairwise(polled)]
    wanted = [min(HOUR, timedelta(minutes=2 ** min(number, 6))) for number in range(len(pauses))]
    assert outcome.text == f"polled {len(pauses)} times"
    assert len(pauses) > 168
    assert [
        pause for pause, want in zip(pauses, wanted, strict=True) if not timedelta(0) <= pause - want < MOMENT
    ] == []
    assert memos == {0}
    assert len(runs) > 10
    assert max(map(len, runs)) < 130
    assert abs(outcome.facts.duration_ms / 1_000 - (await lasted(call)).total_seconds()) < MOMENT.total_seconds()


async def test_deadline_is_moved_by_no_restart_no_early_value_and_no_turn_of_the_run(clock: Clock) -> None:
    waits = Waits(Sleep(signals=[KEY], until=10 * HOUR))
    on = clock.stage(waiting_app(waits.tool))
    async with on.worker():
        call = await start(on, waits.tool, QUICK.model_copy(update={"turnover_events": 30}))
        fixed = (await call.parked()).until
    await clock.environment.sleep(4 * HOUR)
    async with on.worker():
        assert (await call.view()).until == fixed
        await clock.environment.sleep(2 * HOUR)
        for number in range(20):
            await call.update(f"early {number}", YES)
        assert len(await call.runs()) > 1
        assert (await call.view()).until == fixed
        await clock.environment.sleep(5 * HOUR)
        outcome = await call.ends()

    assert outcome.text == "expired"
    assert timedelta(0) <= await lasted(call) - 10 * HOUR < MOMENT


async def test_limit_of_a_run_does_not_bound_its_wait(clock: Clock) -> None:
    @tool(timeout=timedelta(seconds=5))
    def waits(api: ToolApi) -> Sleep | str:
        return Sleep(until=20 * HOUR) if api.wake is None else "done"

    on = clock.stage(waiting_app(waits))
    async with on.worker():
        call = await start(on, waits)
        await call.parked()
        await clock.environment.sleep(DAY)
        outcome = await call.ends()

    assert (outcome.text, outcome.code) == ("done", "")
