"""Extensions are selected per conversation: whose tools a model is offered, and whose hooks count (spec §5.1)."""

from __future__ import annotations

from pathlib import Path

from tarry import Agent, App, Block, Extension, HookApi, HookCall, Hooks
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.stage import stage


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool
def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


def refuse(call: HookCall, api: HookApi) -> Block:
    return Block("not here")


def app_that_records(offered: list[list[str]]) -> App:
    def looks(request: ModelRequest) -> Reply:
        offered.append([spec.name for spec in request.tools])
        return calls(call("look", what="a"), call("shell", command="ls"))

    extensions = [
        Extension("eyes", [look]),
        Extension("hands", [shell]),
        Extension("strict", hooks=Hooks(before_tool=refuse)),
    ]
    return App(model=ScriptedModel.for_each_input([looks, say("done")]), extensions=extensions)


async def test_a_conversation_has_the_tools_and_hooks_of_the_extensions_it_selects(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    offered: list[list[str]] = []
    async with stage(server, app_that_records(offered), tmp_path) as on:
        everything = await ask(on.harness.conversation())
        some = await ask(on.harness.conversation(agent=Agent(extensions=("eyes",))))

    assert everything.codes == ["blocked", "blocked"]
    assert offered == [["look", "shell"], ["look"]]
    assert some.texts[0] == "saw a"
    assert some.codes == ["", "tool_unavailable"]


async def test_a_selection_stays_with_the_conversation_until_another_is_made(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    offered: list[list[str]] = []
    async with stage(server, app_that_records(offered), tmp_path) as on:
        chosen = on.harness.conversation("selecting", agent=Agent(extensions=("hands",)))
        for conversation in (chosen, on.harness.conversation("selecting"), chosen):
            await ask(conversation)
        await chosen.configure(extensions=["eyes", "hands"])
        await ask(chosen)

    assert offered == [["shell"], ["shell"], ["shell"], ["look", "shell"]]
