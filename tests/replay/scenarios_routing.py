"""Calls and tasks whose code runs on a worker of a name, played to be kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from signals.parking import Sleep
from tarry.app import App, Extension
from tarry.tasks import DurableTask, Go
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.replay.studio import Studio
from tests.support.parking import ANSWER, HOUR, YES, Waits, start, waiting_app
from tests.support.stage import app_of
from tests.support.waiting import eventually


@tool(worker="gpu")
def render(scene: str) -> str:
    """Render a scene."""
    return f"rendered {scene}"


@tool
def look() -> str:
    """Look around."""
    return "seen"


async def routed_calls(studio: Studio) -> None:
    app = app_of(ScriptedModel([calls(call("render", scene="sea"), call("look")), say("done")]), render, look)
    async with studio.conversation(app) as (on, conversation), on.special("gpu"):
        await (await conversation.submit("go")).wait()


async def routed_call_that_nobody_takes(studio: Studio) -> None:
    app = app_of(ScriptedModel([call("render", scene="sea"), say("unused")]), render)
    async with studio.conversation(app) as (on, conversation):
        submission = await conversation.submit("go")

        async def lists() -> list[str]:
            return [item.id async for item in on.harness.work(conversation_id=conversation.id) if item.worker]

        await eventually(lists)
        await conversation.abort()
        await submission.wait()


async def routed_call_that_parks_and_is_stopped(studio: Studio) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=HOUR), cancel=lambda: None)
    routed = replace(waits.tool, worker="gpu")
    async with studio.stage(waiting_app(routed)) as on, on.special("gpu"):
        parked = await start(on, routed)
        await parked.parked()
        await on.harness.abort(parked.id)
        await parked.ends()


async def call_that_followed_its_tool_to_another_worker(studio: Studio) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=HOUR))
    old, new = (waiting_app(replace(waits.tool, worker=name)) for name in ("gpu", "big"))
    async with studio.unserved_stage(old) as on:
        async with on.worker(), on.special("gpu"):
            parked = await start(on, replace(waits.tool, worker="gpu"))
            await parked.parked()
        async with on.worker(new), on.special("gpu", new), on.special("big", new):
            await parked.update("done", YES)
            await parked.ends()


async def routed_task(studio: Studio) -> None:
    task: DurableTask[str, str] = DurableTask("test.shade", str, str, worker="gpu")

    @task.phase
    def begin(scene: str) -> Go:
        return Go("end")

    @task.phase
    def end(scene: str) -> str:
        return f"{scene} shaded"

    async with studio.stage(App(extensions=[Extension("test", tasks=[task])])) as on, on.special("gpu"):
        await (await on.harness.start_task(task, "sea")).outcome()


ROUTING: dict[str, Callable[[Studio], Awaitable[None]]] = {
    play.__name__: play
    for play in (
        routed_calls,
        routed_call_that_nobody_takes,
        routed_call_that_parks_and_is_stopped,
        call_that_followed_its_tool_to_another_worker,
        routed_task,
    )
}
