"""Documents: typed state of a conversation, edited in commits by tools, tasks and people (spec §7.7)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tarry import Document, DocumentConflict, InboxFull, NoSuchConversation, RequestConflict, Start, ToolApi, Unreadable
from tarry.client import Conversation, ConversationDocument
from tarry.embedded import EmbeddedServer
from tests.support.answers import ask
from tests.support.documents import NOTES, PLAN, Plan, PlanInTwo, adding, app_doing, committed_task, echoing, in_two
from tests.support.stage import Stage, idle_stage, kinds, stage
from tests.support.waiting import eventually


async def nothing(api: ToolApi) -> None:
    """A tool that leaves documents alone."""


async def begun(on: Stage) -> Conversation:
    """A conversation that has answered."""
    conversation = on.harness.conversation()
    await ask(conversation, "go")
    return conversation


async def test_a_document_that_nobody_has_edited_is_as_it_was_declared(server: EmbeddedServer, tmp_path: Path) -> None:
    async def work(api: ToolApi) -> str:
        return f"{await api.document(PLAN).get()} {(await api.document(PLAN).find()).revision}"

    async with stage(server, app_doing(work), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation, "go")

        assert answer.texts == ["steps=[] 0"]
        assert await conversation.document(PLAN).get() == Plan()
        assert await conversation.documents() == []


async def test_a_tool_and_a_person_edit_the_same_document(server: EmbeddedServer, tmp_path: Path) -> None:
    async def work(api: ToolApi) -> str:
        await api.commit(key="plan", edits=[PLAN.edit(adding("by the tool")), NOTES.key("a").edit(adding("aside"))])
        return str((await api.document(PLAN).get()).steps)

    async with stage(server, app_doing(work), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation, "go")
        assert await conversation.document(PLAN).edit(adding("by a person"))

        assert answer.texts == ["['by the tool']"]
        assert await conversation.document(PLAN).get() == Plan(steps=["by the tool", "by a person"])
        found = [(one.id, one.revision, one.version, one.value) for one in await conversation.documents()]
        assert found == [
            ("app.notes/a", 1, 1, {"steps": ["aside"]}),
            ("app.plan", 2, 1, {"steps": ["by the tool", "by a person"]}),
        ]
        assert (await conversation.view()).documents == 2


async def test_a_document_a_note_an_input_and_a_task_of_a_commit_come_all_or_none(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = await begun(on)
        before = await conversation.transcript()

        with pytest.raises(DocumentConflict, match="at revision 0, not at 7"):
            await conversation.commit(
                key="refused",
                notes=["never"],
                inputs=["never"],
                tasks=[Start(echoing(), "never", "never")],
                edits=[NOTES.edit(adding("never")), PLAN.put(Plan(), revision=7)],
            )
        refused = (await conversation.transcript(), await conversation.documents())
        assert await conversation.commit(
            key="taken",
            notes=["noted"],
            inputs=["and now?"],
            tasks=[Start(echoing(), "hi", "echo")],
            edits=[NOTES.edit(adding("one")), PLAN.put(Plan(steps=["a"]), revision=0)],
        )
        after = await eventually(conversation.transcript, lambda found: len(found) == len(before) + 5)
        task = await committed_task(on.harness, conversation, "echo")

        assert refused == (before, [])
        assert kinds(after[len(before) :]) == ["note", "user", "assistant", "tool_result", "assistant"]
        assert task.arguments == {"input": "hi"}
        assert [one.id for one in await conversation.documents()] == ["app.notes", "app.plan"]
        assert not [item async for item in on.harness.work(conversation_id=conversation.id) if "never" in item.id]


async def test_a_repeat_of_a_commit_makes_no_edit_and_calls_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    told: list[bool] = []
    called: list[str] = []

    def change(plan: Plan) -> Plan:
        called.append("once")
        return Plan(steps=[*plan.steps, "one"])

    async def work(api: ToolApi) -> str:
        for _ in range(2):
            told.append(await api.commit(key="plan", notes=["planned"], edits=[PLAN.edit(change)]))
        with pytest.raises(RequestConflict):
            await api.commit(key="plan", notes=["other"], edits=[PLAN.edit(change)])
        told.append(await api.commit(key="put", edits=[NOTES.put(Plan(), revision=0)]))
        with pytest.raises(RequestConflict):
            await api.commit(key="put", edits=[NOTES.put(Plan(steps=["other"]), revision=0)])
        return str((await api.document(PLAN).get()).steps)

    async with stage(server, app_doing(work), tmp_path) as on:
        answer = await ask(on.harness.conversation(), "go")

    assert (answer.texts, told, called) == (["['one']"], [True, False, True], ["once"])


async def test_edits_that_meet_are_all_made_one_on_the_other(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = await begun(on)
        await asyncio.gather(*(conversation.document(PLAN).edit(adding(str(number))) for number in range(6)))

        assert sorted((await conversation.document(PLAN).get()).steps) == [str(number) for number in range(6)]
        assert (await conversation.document(PLAN).find()).revision == 6


async def test_an_edit_by_a_person_happens_once_under_its_key_and_each_time_without_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = await begun(on)
        document = conversation.document(PLAN)
        for key in (None, "mine", None, "mine"):
            await document.edit(adding("a"), key=key)

        assert (await document.get()).steps == ["a"] * 3


async def test_an_edit_that_meets_another_each_time_is_given_up_as_a_conflict(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    called: list[int] = []
    loop = asyncio.get_running_loop()
    others: list[ConversationDocument[Plan]] = []

    def overtaken(plan: Plan) -> None:
        other = others[0].edit(adding(f"other {len(called)}"))
        called.append(len(plan.steps))
        asyncio.run_coroutine_threadsafe(other, loop).result()
        plan.steps.append("mine")

    async def work(api: ToolApi) -> None:
        with pytest.raises(DocumentConflict, match="at revision 10, not at 9"):
            await api.commit(key="plan", edits=[PLAN.edit(overtaken)])

    async with stage(server, app_doing(work), tmp_path) as on:
        conversation = on.harness.conversation()
        others.append(conversation.document(PLAN))
        answer = await ask(conversation, "go")
        steps = (await conversation.document(PLAN).get()).steps

    assert answer.texts == ["worked"]
    assert called == list(range(10))
    assert steps == [f"other {number}" for number in range(10)]


async def test_several_edits_of_a_document_in_one_commit_see_each_other(server: EmbeddedServer, tmp_path: Path) -> None:
    seen: list[list[str]] = []

    def look(plan: Plan) -> None:
        seen.append(list(plan.steps))

    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = await begun(on)
        await conversation.commit(
            edits=[PLAN.edit(adding("a")), PLAN.edit(look), PLAN.retire(), PLAN.edit(look), PLAN.edit(adding("b"))]
        )

        assert seen == [["a"], []]
        assert await conversation.document(PLAN).get() == Plan(steps=["b"])


async def test_an_edit_that_changes_nothing_makes_no_revision(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = await begun(on)
        await conversation.document(PLAN).edit(adding("a"))
        await conversation.document(PLAN).edit(lambda plan: Plan(steps=list(plan.steps)))

        assert (await conversation.document(PLAN).find()).revision == 1


async def test_a_value_that_does_not_fit_is_refused_where_it_is_written(server: EmbeddedServer, tmp_path: Path) -> None:
    def spoil(plan: Plan) -> None:
        plan.steps = 7  # type: ignore[assignment]  # what an edit without types may do

    async def work(api: ToolApi) -> str:
        with pytest.raises(Unreadable, match="valid array"):
            await api.commit(key="bad", notes=["never"], edits=[PLAN.edit(spoil)])
        with pytest.raises(ValueError, match="no document is named"):
            api.document(Document("app.unknown", 1, Plan))
        return str(await api.document(PLAN).get())

    async with stage(server, app_doing(work), tmp_path) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation, "go")

    assert (answer.texts, answer.kinds) == (["steps=[]"], ["user", "assistant", "tool_result", "assistant"])


async def test_an_older_version_is_migrated_as_it_is_read_and_stored_anew_by_the_next_edit(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    migrated: list[object] = []
    plan_in_two = in_two(migrated)

    async def count(api: ToolApi) -> str:
        return str((await api.document(plan_in_two).get()).done)

    async with idle_stage(server, app_doing(nothing), tmp_path) as on:
        async with on.worker():
            conversation = await begun(on)
            await conversation.document(PLAN).edit(adding("a"))
        async with on.worker(app_doing(count, plan_in_two)):
            await _deployed(conversation, plan_in_two)

    assert migrated == [{"steps": ["a"]}] * 2


async def _deployed(conversation: Conversation, plan_in_two: Document[PlanInTwo]) -> None:
    answer = await ask(conversation, "and now?")
    read = [(one.version, one.value) for one in await conversation.documents()]
    await conversation.document(plan_in_two).edit(lambda plan: PlanInTwo(open=plan.open, done=["b"]))
    written = [(one.version, one.value) for one in await conversation.documents()]

    assert answer.texts[-1] == "[]"
    assert read == [(1, {"steps": ["a"]})]
    assert written == [(2, {"open": ["a"], "done": ["b"]})]
    with pytest.raises(Unreadable, match="written in version 2, by a newer deploy; this one knows 1"):
        await conversation.document(PLAN).get()
    with pytest.raises(Unreadable, match="newer deploy"):
        await conversation.document(PLAN).edit(adding("lost"))


async def test_a_document_that_is_retired_is_as_it_was_declared_and_its_old_revision_is_none(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = await begun(on)
        document = conversation.document(NOTES)
        await document.edit(adding("a"))
        old = await document.find()
        await document.retire()
        retired = await document.find()
        await document.put(Plan(steps=["b"]), revision=retired.revision)

        assert (retired.value, retired.revision) == (Plan(), 0)
        with pytest.raises(DocumentConflict):
            await document.put(Plan(steps=["c"]), revision=old.revision)


async def test_what_does_not_exist_yet_has_no_documents(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = on.harness.conversation()

        with pytest.raises(NoSuchConversation):
            await conversation.document(PLAN).get()
        with pytest.raises(NoSuchConversation):
            await conversation.document(PLAN).edit(adding("a"))


async def test_values_that_are_too_large_are_refused_and_large_ones_leave_little_in_the_workflow(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_doing(nothing), tmp_path) as on:
        conversation = await begun(on)

        with pytest.raises(ValueError, match="262144 are allowed"):
            await conversation.document(NOTES).edit(adding("x" * 256 * 1024))
        for number in range(4):
            await conversation.document(NOTES.key(str(number))).edit(adding("x" * 255 * 1024))
        with pytest.raises(InboxFull, match="1048576 are allowed"):
            await conversation.document(NOTES.key("5")).edit(adding("x" * 255 * 1024))

        assert len((await conversation.document(NOTES.key("3")).get()).steps[0]) == 255 * 1024
        history = await on.client.get_workflow_handle(conversation.id).fetch_history()
        assert sum(event.ByteSize() for event in history.events) < 32 * 1024
