"""The prompt over a conversation's life: what is told, when, and what it costs (spec §13)."""

from __future__ import annotations

from pathlib import Path

from tarry.app import App, Extension
from tarry.core.messages import Message, SystemMessage
from tarry.core.transcript import Entry
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.sections import PromptTold, Section
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.stage import Stage, idle_stage, stage


class Heard:
    """The requests that reached a model."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []
        self.model = ScriptedModel.for_each_input([say("fine")], on_request=self.requests.append)

    def app(self, *sections: Section, instructions: str = "", name: str = "test") -> App:
        """An application with these sections."""
        return App(model=self.model, instructions=instructions, extensions=[Extension(name, sections=sections)])

    @property
    def told(self) -> list[list[str]]:
        """Of each request its instructions, then what it says of the prompt later."""
        return [[one.instructions, *systems(one.messages)] for one in self.requests]


def all_kinds(entries: list[Entry]) -> list[str]:
    return [entry.kind for entry in entries]


def systems(messages: tuple[Message, ...]) -> list[str]:
    return [message.text for message in messages if isinstance(message, SystemMessage)]


async def test_sections_come_in_order_and_instructions_last(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    app = heard.app(
        Section("house", "Be kind."),
        Section("who", lambda told: f"You are {told.conversation_id}.", tag=False),
        Section("none", lambda told: None),
        instructions="Answer briefly.",
    )
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation("c-order")
        answer = await ask(conversation)

    assert heard.told == [["<house>\nBe kind.\n</house>\n\nYou are c-order.\n\nAnswer briefly."]]
    assert all_kinds(answer.entries) == ["user", "system", "assistant"]


async def test_prompt_that_does_not_change_is_told_once(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    async with stage(server, heard.app(Section("house", "Be kind.")), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation)
        await ask(conversation)
        answer = await ask(conversation)

    assert all_kinds(answer.entries) == ["user", "system", "assistant", "user", "assistant", "user", "assistant"]
    assert heard.told == [["<house>\nBe kind.\n</house>"]] * 3


async def test_deploy_that_changes_a_section_tells_the_change_where_it_came(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard()
    async with idle_stage(server, heard.app(Section("a", "One."), Section("b", "Two.")), tmp_path) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            await ask(conversation)
        async with on.worker(heard.app(Section("a", "Changed."))):
            await ask(conversation)
            answer = await ask(conversation)

    change = (
        "No longer part of your instructions: b.\n\n"
        "From here on these parts of your instructions count, in place of earlier ones of the same name.\n\n"
        "<a>\nChanged.\n</a>"
    )
    front = "<a>\nOne.\n</a>\n\n<b>\nTwo.\n</b>"
    assert heard.told == [[front], [front, change], [front, change]]
    assert all_kinds(answer.entries) == [
        *["user", "system", "assistant"],
        *["user", "system", "assistant"],
        *["user", "assistant"],
    ]


async def test_section_that_raises_keeps_what_was_shown_and_is_noted(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    texts = iter(["One."])

    def once(told: PromptTold) -> str:
        return next(texts)

    async with stage(server, heard.app(Section("a", once)), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation)
        answer = await ask(conversation)

    assert heard.told == [["<a>\nOne.\n</a>"]] * 2
    [note] = answer.notes
    assert "section a of the prompt failed" in note
    assert "StopIteration" in note


@tool
def look() -> str:
    """Look."""
    return "seen"


async def test_tool_that_a_deploy_took_away_is_told_and_its_call_is_unavailable(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    requests: list[ModelRequest] = []
    model = ScriptedModel.for_each_input([call("look"), say("fine")], on_request=requests.append)
    with_tool = App(model=model, extensions=[Extension("test", [look])])
    async with idle_stage(server, with_tool, tmp_path) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            await ask(conversation)
        async with on.worker(App(model=model)):
            answer = await ask(conversation)
        async with on.worker():
            await ask(conversation)

    gone, new = "Tools that are gone, not to be called: look.", "New tools: look."
    assert [systems(one.messages) for one in requests[1:6:2]] == [[], [gone], [gone, new]]
    assert [len(one.tools) for one in requests] == [1, 1, 0, 0, 1, 1]
    assert answer.codes == ["", "tool_unavailable"]


async def test_reset_is_followed_by_a_whole_baseline(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    async with stage(server, heard.app(Section("a", "One.")), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "first")
        await (await conversation.reset("Begin anew.")).wait()
        await ask(conversation, "second")
        answer = await ask(conversation, "third")

    assert heard.told == [["<a>\nOne.\n</a>"]] * 3
    assert [entry.prompt.baseline for entry in answer.entries if entry.prompt is not None] == [True, True]
    assert [message.text for message in heard.requests[1].messages] == ["Begin anew.", "second"]


async def test_large_prompt_enters_history_once_and_not_at_every_turn(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    text = "Be kind. " * 2_000
    async with stage(server, heard.app(Section("house", text)), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation)
        once = await _mentions(on, conversation.id)
        for _ in range(3):
            await ask(conversation)
        later = await _mentions(on, conversation.id)

    # In the answer of the request, in the result of the run, and in what the conversation is told of its end.
    assert once == later <= 3


async def _mentions(on: Stage, conversation_id: str) -> int:
    """How many events of a conversation and its runs hold the text of the prompt."""
    count = 0
    async for found in on.client.list_workflows(f'TarryConversation = "{conversation_id}"'):
        history = await on.client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
        count += sum(b"Be kind. Be kind." in event.SerializeToString() for event in history.events)
    return count
