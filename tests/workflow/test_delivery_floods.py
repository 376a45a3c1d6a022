"""Floods: whatever comes in whatever numbers, a parked call hears the value that it waits for (spec §1.5, §3.11)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from temporalio.service import RPCError
from tenacity import AsyncRetrying, retry_if_exception, wait_fixed

from signals.box import MAX_RECEIPTS
from signals.parking import Sleep
from signals.tokens import MAX_VALUE_BYTES
from tarry.api import Received, ToolApi
from tarry.embedded import EmbeddedServer
from tarry.tools import tool
from tests.support.parking import ANSWER, HOUR, QUICK, YES, Call, Waits, names, start, waiting_app, wedges
from tests.support.stage import idle_stage, stage
from tests.support.waiting import PATIENCE, eventually

DONE = Sleep(signals=[ANSWER.key("done")], until=HOUR)
TURNS = 200
FLOOD = 100_000
OFTEN = QUICK.model_copy(update={"turnover_events": TURNS})


async def flood(call: Call, count: int) -> None:
    """Junk of every kind by plain signal, as fast as the server takes it."""
    junk = [
        ("no.such-signal", {"key": "done", "value": YES}),
        (ANSWER.name, 5),
        (ANSWER.name, {"key": "done", "value": {"text": 5}}),
        (ANSWER.name, {"key": "done"}),
        ("tarry.unknown", None),
    ]

    async def one(number: int) -> None:
        name, input = junk[number % len(junk)]
        # In the moment in which a run turns over the server takes none, and says so.
        async for attempt in AsyncRetrying(retry=retry_if_exception(_is_closing), wait=wait_fixed(0.02), reraise=True):
            with attempt:
                await call.handle.signal(name, input)

    for first in range(0, count, 50):
        await asyncio.gather(*(one(number) for number in range(first, min(first + 50, count))))


def _is_closing(error: BaseException) -> bool:
    return isinstance(error, RPCError) and "workflow is closing" in error.message


async def test_awaited_value_gets_through_thousands_of_junk_signals(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool, OFTEN)
        before = await call.parked()
        await flood(call, 3_000)
        after = await eventually(call.view, lambda view: len(view.receipts) == MAX_RECEIPTS)
        await call.signal("done", YES)
        outcome = await call.ends()
        runs = await call.runs()

    assert (after.since, after.until, after.state) == (before.since, before.until, "sleeping")
    assert outcome.text == "signal test.answer/done: yes"
    assert outcome.facts.duration_ms >= 0
    assert len(runs) > 1
    assert [failed for run in runs for failed in wedges(run)] == []


async def test_junk_that_came_while_no_worker_was_up_is_judged_in_order_with_the_value_among_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(DONE)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool, OFTEN)
            await call.parked()
        await flood(call, 300)
        await call.signal("done", YES, delivery_id="good")
        await flood(call, 100)
        async with on.worker():
            outcome = await call.ends()
            receipts = await call.receipts()
            runs = await call.runs()

    assert outcome.text == "signal test.answer/done: yes"
    assert [receipt.answer for receipt in receipts if receipt.delivery_id == "good"] == ["delivered"]
    assert len(receipts) in (MAX_RECEIPTS, MAX_RECEIPTS + 1)
    assert [failed for run in runs for failed in wedges(run)] == []


async def test_values_that_nobody_waits_for_fill_their_quota_and_the_awaited_ones_have_their_own(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    large = {"text": "x" * 60_000}
    both = Sleep(signals=[ANSWER.key("done"), ANSWER.key("more")], until=HOUR)
    waits = Waits(both, Sleep(signals=[ANSWER.key("more")], until=HOUR))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        answers = [(await call.update(f"junk {number}", large)).answer for number in range(10)]
        answers += [(await call.update("small", YES)).answer]
        refused = await call.update("one more", large)
        longest = {"text": "x" * (MAX_VALUE_BYTES - 100)}
        awaited = [(await call.update("done", longest)).answer]
        await call.parked(intent=2)
        awaited += [(await call.update("more", longest)).answer]
        outcome = await call.ends()
        history = await call.history()

    assert answers == [*["delivered"] * 5, *["invalid"] * 5, "delivered"]
    assert refused.reason.startswith("task_full: the value needs 60")
    assert awaited == ["delivered", "delivered"]
    assert outcome.text.startswith("signal test.answer/more: xxx")
    assert wedges(history) == []


async def test_sixty_numbered_values_in_bursts_are_each_taken_once_and_in_order_while_the_run_turns_over(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    taken: list[str] = []

    @tool
    def takes(api: ToolApi) -> Sleep | str:
        number = api.checkpoint or 0
        if api.wake is not None:
            found = api.read_signal_sync(ANSWER, str(number - 1))
            assert isinstance(found, Received)
            taken.append(found.value.text)
        if number == 60:
            return "all taken"
        return Sleep(checkpoint=number + 1, signals=[ANSWER.key(str(number))], until=HOUR)

    async with stage(lowered_server, waiting_app(takes), tmp_path) as on:
        call = await start(on, takes, QUICK.model_copy(update={"turnover_events": 40}))
        for first in range(0, 60, 5):
            for number in range(first, first + 5):
                await call.signal(str(number), {"text": f"value {number}"}, delivery_id=f"d{number}")
        outcome = await call.ends()
        receipts = await call.receipts()
        runs = await call.runs()

    assert outcome.text == "all taken"
    assert taken == [f"value {number}" for number in range(60)]
    assert [(receipt.delivery_id, receipt.answer) for receipt in receipts] == [
        (f"d{number}", "delivered") for number in range(60)
    ]
    assert len(runs) > 5
    assert [failed for run in runs for failed in wedges(run)] == []


async def test_stop_in_the_middle_of_a_flood_ends_the_call_before_it(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool, OFTEN)
        await call.parked()
        flooding = asyncio.create_task(flood(call, FLOOD))
        try:
            await eventually(call.view, lambda view: len(view.receipts) > 100)
            await call.handle.cancel()
            async with asyncio.timeout(PATIENCE):
                outcome = await call.ends()
            sent = sum(names(run).count("WORKFLOW_EXECUTION_SIGNALED") for run in await call.runs())
        finally:
            flooding.cancel()
            await asyncio.gather(flooding, return_exceptions=True)

    assert outcome.code == "aborted"
    assert sent < FLOOD
