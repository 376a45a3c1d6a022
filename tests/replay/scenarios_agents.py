"""Conversations that are configured, and that spend, played to be kept: idle, in the middle of a run, from a shell."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from decimal import Decimal

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.core.agent import Agent
from tarry.core.choices import CONFIGURE
from tarry.core.messages import Usage
from tarry.core.protocol import SUBMIT, RunSettings, SubmitInput
from tarry.models import ModelInfo, Prices
from tarry.testing import ScriptedModel, Step, call, fail, say
from tarry.tools import tool
from tests.replay.scenarios import QUICK, ask, look
from tests.replay.studio import Studio
from tests.support.held import HeldTool
from tests.support.waiting import eventually

PRICED = ModelInfo(prices=Prices(input=Decimal("1.25"), output=Decimal(10)))


def _two_models(work: HeldTool) -> App:
    steps: list[Step] = [call("work", what="a"), say("done")]
    return App(
        model=ScriptedModel.for_each_input(steps, "scripted/slow"),
        models={"fast": ScriptedModel.for_each_input(steps, "scripted/fast")},
        extensions=[Extension("work", [work.tool]), Extension("eyes", [look])],
    )


async def configured_idle_and_open(studio: Studio) -> None:
    """By update: before the first input, in the middle of a run whose workflow turns over, and after it."""
    work = HeldTool()
    async with studio.conversation(_two_models(work), turnover_events=10) as (_, conversation):
        await conversation.configure(model="fast", instructions="Be kind.")
        submission = await conversation.submit("one")
        await work.begun()
        await conversation.configure(model=None, extensions=["work"])
        await conversation.configure(cwd="/work")
        work.go.set()
        await submission.wait()
        await conversation.configure(instructions=None, thinking="low")
        await ask(conversation, "two")


async def configured_by_signal(studio: Studio) -> None:
    """With no worker up, then in the middle of a run, then what cannot be read."""
    work = HeldTool()
    async with studio.unserved(_two_models(work), **QUICK) as (on, conversation):
        await conversation.configure(model="fast")
        submission = await conversation.submit("one")
        handle = on.client.get_workflow_handle(conversation.id)
        async with on.worker():
            await work.begun()
            await handle.signal(CONFIGURE, {"model": "gone"})
            await handle.signal(CONFIGURE, {"modle": "fast"})

            async def refusals() -> int:
                return len((await conversation.view()).refusals)

            await eventually(refusals)
            work.go.set()
            await submission.wait()
            await ask(conversation, "two")


@tool(replay="safe")
async def spend(what: str, api: ToolApi) -> str | Sleep:
    """Report, look something up, sleep, and report again."""
    api.usage(Usage(input_tokens=3, cost=Decimal("0.5")))
    if api.wake is None:
        await api.execute_tool("pay", {"what": what}, key="pay")
        return Sleep(until=timedelta(seconds=1))
    return "spent"


@tool
def pay(what: str, api: ToolApi) -> str:
    """Report."""
    api.usage(Usage(input_tokens=1, cost=Decimal("0.25")))
    return f"paid for {what}"


async def configured_by_a_steer(studio: Studio) -> None:
    """Choices that come with a steer, which the run takes up with the request that reads it."""
    work = HeldTool()
    async with studio.conversation(_two_models(work)) as (on, conversation):
        submission = await conversation.submit("one")
        await work.begun()
        chosen = RunSettings(agent=Agent(model="fast"))
        steer = SubmitInput(content="faster", request_id="s", when_busy="steer", settings=chosen)
        await on.client.get_workflow_handle(conversation.id).execute_update(SUBMIT, steer)
        work.go.set()
        await submission.wait()


async def spent_by_models_and_tools(studio: Studio) -> None:
    """A request that fails, a call that parks with a nested one, and an answer."""
    model = ScriptedModel.for_each_input([fail("retryable", "down"), call("spend", what="a"), say("done")], info=PRICED)
    app = App(model=model, extensions=[Extension("test", [spend, pay])])
    async with studio.conversation(app) as (_, conversation):
        await ask(conversation, "one", "two")


AGENTS: dict[str, Callable[[Studio], Awaitable[None]]] = {
    "configured-idle-and-open": configured_idle_and_open,
    "configured-by-signal": configured_by_signal,
    "configured-by-a-steer": configured_by_a_steer,
    "spent-by-models-and-tools": spent_by_models_and_tools,
}
