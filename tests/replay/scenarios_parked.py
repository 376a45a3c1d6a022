"""Calls that wait, played to be kept: each way to be woken, to be stopped, and to end otherwise."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from datetime import timedelta

from temporalio.api.enums.v1 import EventType

from signals.parking import Ask, Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.connect import INLINE_BYTES
from tarry.core.protocol import RunSettings
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.replay.recorded_app import app as crashing
from tests.replay.studio import Studio
from tests.support.parking import ANSWER, HOUR, YES, Call, Waits, envelope, start, waiting_app
from tests.support.shell import signal
from tests.support.waiting import eventually
from workflows.task.port import MAX_BATCH

FIRED = EventType.EVENT_TYPE_TIMER_FIRED
DONE = ANSWER.key("done")
FOREVER = Sleep(until=HOUR, signals=[DONE], ask=Ask(text="Shall I?", for_whom="ops"))
FOREVER_ELSE = Sleep(until=HOUR, signals=[ANSWER.key("else")])
SOON = timedelta(seconds=1)
"""Of real time, for a real timer."""


async def parked_with_a_deadline(studio: Studio) -> None:
    waits = Waits(FOREVER)
    async with studio.stage(waiting_app(waits.tool)) as on:
        await (await start(on, waits.tool)).parked()


async def parked_without_a_deadline(studio: Studio) -> None:
    waits = Waits(Sleep(signals=[DONE, ANSWER.key("a/b")]))
    async with studio.stage(waiting_app(waits.tool)) as on:
        await (await start(on, waits.tool)).parked()


async def woken_by_a_signal(studio: Studio) -> None:
    waits = Waits(FOREVER)
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool)
        await parked.parked()
        await signal(studio.server, parked.id, ANSWER.name, envelope("done", YES))
        await parked.ends()


async def woken_by_an_update(studio: Studio) -> None:
    waits = Waits(FOREVER)
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool)
        await parked.parked()
        await parked.update("done", YES, delivery_id="d1")
        await parked.ends()


async def woken_by_a_large_value(studio: Studio) -> None:
    waits = Waits(FOREVER)
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool)
        await parked.parked()
        await parked.signal("done", {"text": "x" * INLINE_BYTES})
        await parked.ends()


async def woken_by_an_early_value(studio: Studio) -> None:
    waits = Waits(FOREVER, FOREVER_ELSE, holds=lambda seen: not seen.wake)
    async with studio.stage(waiting_app(waits.tool)) as on:
        held = await start(on, waits.tool)
        await waits.ran(1)
        await held.update("done", YES)
        await held.signal("else", YES)
        await held.answers(2)
        waits.go.set()
        await held.ends()


async def expired(studio: Studio) -> None:
    waits = Waits(Sleep(until=SOON, signals=[DONE]), Sleep(until=timedelta(0), signals=[ANSWER.key("else")]))
    async with studio.stage(waiting_app(waits.tool)) as on:
        await (await start(on, waits.tool)).ends()


async def refused_deliveries(studio: Studio) -> None:
    waits = Waits(Sleep(until=timedelta(0), signals=[ANSWER.key("late")]), FOREVER)
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool)
        await parked.parked(intent=2)
        await parked.handle.signal(ANSWER.name)
        await parked.handle.signal(ANSWER.name, args=[1, 2])
        await parked.handle.signal("unknown", {"key": "done", "value": YES})
        await parked.signal("done", {"txt": "wrong"}, delivery_id="d1")
        await parked.update("done", {"txt": "wrong"}, delivery_id="d2")
        await parked.signal("late", YES, delivery_id="d3")
        await parked.update("early", YES, delivery_id="d4")
        await parked.signal("early", YES, delivery_id="d4")
        await parked.signal("early", YES, delivery_id="d5")
        await parked.update("early", YES, delivery_id="d6")
        await parked.answers(7)
        await parked.update("done", YES, delivery_id="d7")
        await parked.ends()


async def ruled_by_a_referee(studio: Studio) -> None:
    waits = Waits(Sleep(until=timedelta(seconds=2), signals=[DONE]))
    async with studio.unserved_stage(waiting_app(waits.tool)) as on:
        async with on.worker():
            in_time, late = await start(on, waits.tool), await start(on, waits.tool)
            for parked in (in_time, late):
                await parked.parked()
        await in_time.signal("done", YES, delivery_id="d1")
        for parked in (in_time, late):
            await eventually(parked.events, lambda found: any(event.event_type == FIRED for event in found))
            await parked.signal("done", YES, delivery_id="d2")
        async with on.worker():
            for parked in (in_time, late):
                await parked.ends()


async def flooded(studio: Studio) -> None:
    """More at once than one local activity judges."""
    waits = Waits(FOREVER)
    async with studio.unserved_stage(waiting_app(waits.tool)) as on:
        async with on.worker():
            parked = await start(on, waits.tool)
            await parked.parked()
        for _ in range(MAX_BATCH):
            await parked.handle.signal("unknown", {"key": "k", "value": 1})
        await parked.signal("done", YES)
        async with on.worker():
            await parked.ends()


async def parked_and_stopped(studio: Studio) -> None:
    async def clean_up(api: ToolApi) -> None:
        await api.memo("cleaned", api.checkpoint)

    waits = Waits(FOREVER, cancel=clean_up)
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool)
        await parked.parked()
        await on.harness.abort(parked.id)
        await parked.ends()


async def stopped_in_a_woken_run(studio: Studio) -> None:
    waits = Waits(FOREVER, cancel=lambda: None, holds=lambda seen: bool(seen.wake))
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool)
        await parked.parked()
        await parked.update("done", YES)
        await waits.ran(2)
        await on.harness.abort(parked.id)
        await parked.ends()


async def park_that_lost_to_a_stop(studio: Studio) -> None:
    begun = threading.Event()

    @tool(cancel=lambda: None)
    def stubborn(api: ToolApi) -> Sleep:
        begun.set()
        while not api.is_cancelled:
            threading.Event().wait(0.02)
        return FOREVER

    async def has_begun() -> bool:
        return begun.is_set()

    async with studio.stage(waiting_app(stubborn)) as on:
        running = await start(on, stubborn)
        await eventually(has_begun)
        await on.harness.abort(running.id)
        await running.ends()


async def clean_up_that_failed(studio: Studio) -> None:
    def clean_up() -> None:
        raise ValueError("the service is away")

    waits = Waits(FOREVER, cancel=clean_up)
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool)
        await parked.parked()
        await on.harness.abort(parked.id)
        await parked.ends()


async def tool_gone_while_parked(studio: Studio) -> None:
    waits = Waits(FOREVER)
    async with studio.unserved_stage(waiting_app(waits.tool)) as on:
        async with on.worker():
            parked = await start(on, waits.tool)
            await parked.parked()
        async with on.worker(waiting_app()):
            await parked.update("done", YES)
            await parked.ends()


async def turned_over_while_parked(studio: Studio) -> None:
    waits = Waits(FOREVER)
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool, RunSettings(turnover_events=20))
        await parked.parked()
        for number in range(3):
            await parked.update(f"early {number}", YES)
        await eventually(lambda: has_turned_over(parked))
        await parked.signal("done", YES)
        await parked.ends()


async def has_turned_over(parked: Call) -> bool:
    started = (await parked.events())[0].workflow_execution_started_event_attributes
    return bool(started.continued_execution_run_id)


async def polled(studio: Studio) -> None:
    @tool(replay="safe")
    def poll(api: ToolApi) -> Sleep | str:
        looked = api.memo_sync(f"look {api.checkpoint}", (api.checkpoint or 0) + 1)
        return "passed" if looked == 4 else Sleep(looked, until=timedelta(0))

    async with studio.stage(waiting_app(poll)) as on:
        await (await start(on, poll, RunSettings(turnover_events=30))).ends()


async def invalid_parks(studio: Studio) -> None:
    used, vague = Waits(FOREVER, FOREVER), Waits(Sleep(), name="vague")
    async with studio.stage(waiting_app(used.tool, vague.tool)) as on:
        parked = await start(on, used.tool)
        await parked.parked()
        await parked.update("done", YES)
        await parked.ends()
        await (await start(on, vague.tool)).ends()


async def cut_off_in_a_woken_run(studio: Studio) -> None:
    async with studio.crashing(crashing) as (_, conversation):
        for content in ("crash_when_woken", "clean_up_when_woken", "crash_when_woken_until 2"):
            await (await conversation.submit(content)).wait()


async def conversation_with_a_parked_call(studio: Studio) -> None:
    waits = Waits(FOREVER, cancel=lambda: None)
    model = ScriptedModel.for_each_input([call("waits"), say("done")])
    app = App(model=model, extensions=[Extension("test", [waits.tool], [ANSWER])])
    async with studio.conversation(app, heartbeat_timeout=4.0) as (on, conversation):
        first = await conversation.submit("go on")
        await waits.ran(1)
        parked = Call(on.client, waits.task_ids[0])
        await parked.parked()
        await parked.update("done", YES)
        await first.wait()
        second = await conversation.submit("go on")
        await waits.ran(3)
        await Call(on.client, waits.task_ids[2]).parked()
        await conversation.abort()
        await second.wait()


PARKED: dict[str, Callable[[Studio], Awaitable[None]]] = {
    play.__name__: play
    for play in (
        parked_with_a_deadline,
        parked_without_a_deadline,
        woken_by_a_signal,
        woken_by_an_update,
        woken_by_a_large_value,
        woken_by_an_early_value,
        expired,
        refused_deliveries,
        ruled_by_a_referee,
        flooded,
        parked_and_stopped,
        stopped_in_a_woken_run,
        park_that_lost_to_a_stop,
        clean_up_that_failed,
        tool_gone_while_parked,
        turned_over_while_parked,
        polled,
        invalid_parks,
        cut_off_in_a_woken_run,
        conversation_with_a_parked_call,
    )
}
