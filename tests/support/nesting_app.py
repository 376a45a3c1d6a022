"""Tools to be called by tools: one waits for news, one reports, one fails."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from pydantic import BaseModel

from tarry import App, DurableTask, Extension, Received, Signal, Sleep, ToolApi
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.stage import Stage
from tests.support.waiting import eventually


class News(BaseModel):
    text: str


NEWS = Signal("app.news", 1, News)


@tool(replay="safe")
async def research(topic: str, api: ToolApi) -> Sleep | str:
    """Wait for news of a topic."""
    match await api.read_signal(NEWS, topic):
        case Received(value=news):
            return f"{topic}: {news.text}"
        case _:
            return Sleep(signals=[NEWS.key(topic)], until=timedelta(hours=1))


@tool(output=News)
def report(text: str) -> News:
    """Report something."""
    return News(text=text)


@tool
def fails() -> str:
    """Fail."""
    raise ValueError("broken")


def app_with(outer: Tool, *tools: Tool, tasks: tuple[DurableTask[Any, Any], ...] = ()) -> App:
    """Its model calls `outer` for each input."""
    model = ScriptedModel.for_each_input([calls(call(outer.name)), say("done")])
    extension = Extension("test", [outer, research, report, fails, *tools], [NEWS], tasks)
    return App(model=model, extensions=[extension])


async def deliver(on: Stage, task_id: str, topic: str) -> str:
    """Send the news of a topic to a call, as soon as there is one."""
    sent = await eventually(
        lambda: on.harness.signal(task_id, NEWS, topic, News(text="it rains")), lambda sent: sent.answer != "not_found"
    )
    return sent.answer


async def view_of(on: Stage, task_id: str) -> Any:
    """How a task stands; None: there is none yet."""
    try:
        return await on.harness.task(task_id)
    except Exception:
        return None
