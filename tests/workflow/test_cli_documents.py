"""`tarry documents`: what is stored, for people and for programs, where no application is known."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tarry import ToolApi
from tarry.client import Conversation
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tests.support.answers import ask
from tests.support.command import Command
from tests.support.documents import NOTES, PLAN, adding, app_doing
from tests.support.stage import stage


async def nothing(api: ToolApi) -> None:
    """A tool that leaves documents alone."""


@pytest.fixture
async def tarry(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[tuple[Command, Conversation]]:
    """The command, and a conversation with two documents of which one was edited twice."""
    async with stage(server, app_doing(nothing), tmp_path / "store") as on:
        conversation = on.harness.conversation("planned")
        await ask(conversation, "go")
        for step in ("a", "b"):
            await conversation.commit(notes=[step], edits=[PLAN.edit(adding(step))])
        await conversation.document(NOTES.key("x")).edit(adding("ü" * 80))
        ours = {"TARRY_TASK_QUEUE": on.settings.task_queue, "TARRY_STORE": str(tmp_path / "store")}
        yield Command(tmp_path, environment_of(server.address) | ours), conversation
        await on.client.get_workflow_handle(conversation.id).terminate()


async def test_documents_are_listed_and_printed_as_they_are_stored(tarry: tuple[Command, Conversation]) -> None:
    command, _ = tarry
    listed = await command.run("documents", "planned")
    printed = await command.run("documents", "planned", "app.plan")
    told = await command.run("documents", "planned", "app.plan", "--json")

    assert [line.split()[:4] for line in listed.out.splitlines()] == [
        ["DOCUMENT", "SCOPE", "REVISION", "VERSION"],
        ["app.notes/x", "conversation", "3", "1"],
        ["app.plan", "conversation", "2", "1"],
    ]
    assert (printed.code, printed.out) == (0, '{\n  "steps": [\n    "a",\n    "b"\n  ]\n}\n')
    kept = {"scope": "conversation", "history": "rewindable", "revision": 2, "version": 1}
    assert told.json == {
        "conversation_id": "planned",
        "as_of": None,
        "documents": [{"id": "app.plan", **kept, "value": {"steps": ["a", "b"]}}],
    }


async def test_documents_are_printed_as_of_an_entry_and_what_is_missing_is_named(
    tarry: tuple[Command, Conversation],
) -> None:
    command, conversation = tarry
    first_note = len(await conversation.transcript()) - 2
    then = await command.run("documents", "planned", "--as-of", str(first_note), "--json")
    before = await command.run("documents", "planned", "app.plan", "--as-of", "0")
    nobody = await command.run("documents", "nobody")

    assert [(one["id"], one["value"]) for one in then.json["documents"]] == [("app.plan", {"steps": ["a"]})]
    assert (before.code, before.err) == (
        1,
        "tarry: conversation planned has no document app.plan that can be rewound, as of entry 0; it has none\n",
    )
    assert (nobody.code, nobody.err) == (1, "tarry: there is no conversation nobody\n")
