"""Documents: typed state of a conversation, edited in commits by tools and by people (spec §7.7)."""

from __future__ import annotations

from pathlib import Path

from tarry import ToolApi
from tarry.embedded import EmbeddedServer
from tests.support.answers import ask
from tests.support.documents import NOTES, PLAN, Plan, adding, app_doing
from tests.support.stage import stage


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
