"""The prompt over a conversation's life: what is told, when, and what it costs (spec §13)."""

from __future__ import annotations

from pathlib import Path

from tarry.app import App, Extension
from tarry.core.messages import Message, SystemMessage
from tarry.core.transcript import Entry
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.sections import PromptTold, Section
from tarry.testing import ScriptedModel, say
from tests.support.answers import ask
from tests.support.stage import idle_stage, stage


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
