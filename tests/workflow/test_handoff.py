"""A tool that hands off: it ends its run, and the next one begins with its words (spec §6.6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tarry import App, Extension, ToolApi, ToolResult
from tarry.core.messages import UserMessage
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.answers import ask
from tests.support.stage import stage


@tool
def plan(text: str) -> ToolResult:
    """Hand off to whoever builds."""
    return ToolResult("planned", handoff=text)


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def told(request: ModelRequest) -> Reply:
    """Say all that users said, and how many results there are."""
    results = sum(message.role == "tool" for message in request.messages)
    users = [message.text for message in request.messages if isinstance(message, UserMessage)]
    return say(f"{' | '.join(users)}; {results} results")


def first_then_tell(*made: Reply) -> ScriptedModel:
    """What the model does when it is told "go", and what it says to all else."""
    return ScriptedModel([lambda asked: made[0] if asked.messages[-1].text == "go" else told(asked)] * 9)


def app_with(made: Reply, *tools: Tool) -> App:
    return App(model=first_then_tell(made), extensions=[Extension("test", tools)])


async def test_a_handoff_ends_the_run_as_done_and_the_next_one_reads_nothing_else(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = app_with(calls(call("plan", text="Build the roof."), text="I hand off."), plan)
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await ask(conversation, "go")
        second = await ask(conversation, "and?")

    assert (first.end, first.text) == ("done", "I hand off.")
    assert first.kinds == ["user", "assistant", "tool_result", "reset"]
    assert (second.end, second.text) == ("done", "Build the roof. | and?; 0 results")


async def test_of_several_handoffs_the_last_in_call_order_counts_and_other_calls_have_their_results(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    made = calls(call("plan", text="one"), call("look", what="a"), call("plan", text="two"), call("look", what="b"))
    async with stage(server, app_with(made, plan, look), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await ask(conversation, "go")
        second = await ask(conversation, "and?")

    assert first.texts == ["planned", "saw a", "planned", "saw b"]
    assert second.text == "two | and?; 0 results"


async def test_a_handoff_without_words_leaves_nothing_but_the_next_input(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_with(calls(call("plan", text="")), plan), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "go")
        second = await ask(conversation, "and?")

    assert second.text == "and?; 0 results"


async def test_inputs_that_wait_at_a_handoff_are_answered_behind_it(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    async def leave(api: ToolApi) -> ToolResult:
        await api.submit(api.conversation_id, "later", request_id="later")
        await api.submit(api.conversation_id, "hurry", request_id="hurry", when_busy="steer")
        return ToolResult("left", handoff="The plan stands.")

    async with stage(server, app_with(calls(call("leave")), leave), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await ask(conversation, "go")
        settled = [await conversation.submission(name).wait() for name in ("later", "hurry")]

    assert first.end == "done"
    assert [end.answer_text for end in settled] == ["The plan stands. | later | hurry; 0 results"] * 2
    assert settled[0].generation_id == settled[1].generation_id


async def test_the_handoff_of_a_nested_call_is_its_callers_to_read_and_ends_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool
    async def nest(api: ToolApi) -> str:
        return (await api.execute_tool("plan", {"text": "no"}, key="a")).text

    async with stage(server, app_with(calls(call("nest")), nest, plan), tmp_path) as on:
        answer = await ask(on.harness.conversation(), "go")

    assert (answer.end, answer.texts) == ("done", ["planned"])
    assert "reset" not in answer.kinds


async def test_a_handoff_that_is_no_text_is_told_to_the_model(server: EmbeddedServer, tmp_path: Path) -> None:
    number: Any = 7

    @tool
    def odd() -> ToolResult:
        return ToolResult("odd", handoff=number)

    async with stage(server, app_with(calls(call("odd")), odd), tmp_path) as on:
        answer = await ask(on.harness.conversation(), "go")

    assert answer.codes == ["unencodable_result"]
    assert "its handoff is a int, not a text" in answer.texts[0]
