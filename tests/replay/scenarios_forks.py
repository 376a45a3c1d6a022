"""Forks, played to be kept: of an idle conversation, of a turn that is open, of a fork, each of which turns over."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.core.agent import Agent
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.replay.scenarios import ask
from tests.replay.studio import Studio
from tests.support.documents import PLAN, adding, app_doing
from tests.support.held import HeldTool


async def forked_with_what_it_keeps(studio: Studio) -> None:
    """Choices, a document, a head; then both go on, and turn over."""

    async def work(api: ToolApi) -> None:
        await api.commit(key="plan", edits=[PLAN.edit(adding(api.conversation_id[-4:]))])

    async with studio.stage(app_doing(work), turnover_events=20) as on:
        parent = on.harness.conversation()
        await parent.configure(cwd="/work")
        await ask(parent, "one", "two")
        await (await parent.reset("begin anew")).wait()
        for at in (2, None):
            fork = await parent.fork(at, agent=Agent(cwd="/other") if at else None)
            await ask(fork, "three", "four", "five")
        await ask(parent, "three")


async def forked_in_an_open_turn(studio: Studio) -> None:
    """By a tool beside one that is held; the fork is answered first, then forked again."""
    held = HeldTool()
    forks: list[str] = []

    @tool(replay="safe")
    async def branch(api: ToolApi) -> str:
        forks.append(await api.own_conversation("aside", fork_of=api.conversation_id))
        await held.begun()
        await api.submit(forks[0], "what now?", request_id="aside")
        return "asked"

    def decide(request: ModelRequest) -> Reply:
        both = calls(call("branch"), call("work", what="a"))
        return both if request.messages[-1].text == "go" else say("fine")

    model = ScriptedModel.for_each_input([decide, say("done")])
    app = App(model=model, extensions=[Extension("test", [branch, held.tool])])
    async with studio.stage(app, turnover_events=20) as on:
        parent = on.harness.conversation()
        submission = await parent.submit("go")
        await held.begun()
        held.go.set()
        await submission.wait()
        fork = on.harness.conversation(forks[0])
        await fork.submission("aside").wait()
        await ask(await fork.fork(), "three")


FORKS: dict[str, Callable[[Studio], Awaitable[None]]] = {
    "forked-with-what-it-keeps": forked_with_what_it_keeps,
    "forked-in-an-open-turn": forked_in_an_open_turn,
}
