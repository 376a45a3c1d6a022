"""Documents that can be rewound: as they were at the end of the commit of each entry, whatever is folded or carried."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry import App, Extension, ToolApi
from tarry.client import Conversation
from tarry.client.documents import DocumentReader
from tarry.core.documents import CROWDED_BYTES, FOLD_STATES
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.documents import NOTES, PLAN, Plan, adding, app_doing
from tests.support.stage import Stage, kinds, stage


async def nothing(api: ToolApi) -> None:
    """A tool that leaves documents alone."""


async def past(conversation: Conversation, entries: int) -> list[list[str]]:
    """The steps of the plan as of each entry."""
    return [(await conversation.document(PLAN).snapshot_as_of(entry)).steps for entry in range(entries)]


async def test_edits_of_a_run_stand_between_its_entries(server: EmbeddedServer, tmp_path: Path) -> None:
    seen: list[list[str]] = []

    @tool
    async def plan(step: str, api: ToolApi) -> str:
        await api.commit(key="plan", edits=[PLAN.edit(adding(step))])
        seen.append((await api.document(PLAN).as_of(1)).steps)
        return "planned"

    model = ScriptedModel([calls(call("plan", step="a")), calls(call("plan", step="b")), say("done")])
    app = App(model=model, extensions=[Extension("test", [plan], documents=[PLAN])])
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation, "go")
        await conversation.document(PLAN).edit(adding("c"))
        await conversation.commit(notes=["after it"])

        assert kinds(answer.entries) == ["user", "assistant", "tool_result", "assistant", "tool_result", "assistant"]
        entries = [entry.index for entry in await conversation.transcript() if entry.kind != "system"]
        found = [(await conversation.document(PLAN).snapshot_as_of(entry)).steps for entry in entries]
        assert found == [[], [], ["a"], ["a"], ["a", "b"], ["a", "b"], ["a", "b", "c"]]
        assert seen == [[], []]


async def test_a_document_and_a_note_of_one_commit_belong_together(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = on.harness.conversation()
        before = len((await ask(conversation, "go")).entries)
        for step in ("a", "b"):
            await conversation.commit(notes=[step], edits=[PLAN.edit(adding(step))])

        assert (await past(conversation, before + 2))[before - 1 :] == [[], ["a"], ["a", "b"]]


async def test_what_cannot_be_rewound_says_so(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "go")

        with pytest.raises(ValueError, match='declare it with history="rewindable"'):
            await conversation.document(NOTES).snapshot_as_of(0)


async def edited_often(on: Stage, times: int) -> tuple[Conversation, int]:
    """A conversation with so many edits, each with a note; and the number of entries before them."""
    conversation = on.harness.conversation()
    before = len((await ask(conversation, "go")).entries)
    for number in range(times):
        await conversation.commit(notes=[str(number)], edits=[PLAN.edit(adding(str(number)))])
    return conversation, before


async def test_old_states_are_folded_into_the_store_and_still_found(server: EmbeddedServer, tmp_path: Path) -> None:
    times = 3 * FOLD_STATES
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation, before = await edited_often(on, times)
        kept = (await DocumentReader(on.client).view(conversation.id)).documents.kept[PLAN.id]

        assert (len(kept.states) <= FOLD_STATES, kept.folded != "") == (True, True)
        for entry in (before, before + 1, before + FOLD_STATES, before + times - 1):
            assert len((await conversation.document(PLAN).snapshot_as_of(entry)).steps) == entry - before + 1
        assert await conversation.document(PLAN).snapshot_as_of(before - 1) == Plan()


async def test_all_is_still_there_when_the_conversation_has_continued_as_new(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_doing(nothing), tmp_path, turnover_events=10) as on:
        conversation, before = await edited_often(on, 20)
        await conversation.document(NOTES.key("large")).edit(adding("x" * 10_000))
        await ask(conversation, "and now?")
        events = (await on.histories(conversation.id))[conversation.id]

        assert events.count("WORKFLOW_EXECUTION_CONTINUED_AS_NEW") >= 2
        assert await past(conversation, before + 2) == [[]] * before + [["0"], ["0", "1"]]
        assert len((await conversation.document(PLAN).get()).steps) == 20
        assert (await conversation.document(NOTES.key("large")).get()).steps == ["x" * 10_000]


async def test_a_conversation_of_many_documents_carries_little(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "go")
        for number in range(40):
            await conversation.document(PLAN.key(str(number))).edit(adding("x" * 3_000))
        view = await DocumentReader(on.client).view(conversation.id)

        assert len(view.documents.kept) == 40
        assert view.carried == view.documents.carried() < CROWDED_BYTES + 40 * 1024
        assert (await conversation.document(PLAN.key("39")).get()).steps == ["x" * 3_000]
