"""Documents of a conversation and of a session: a root conversation and all that it owns (spec §7.7)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tarry import App, Block, CallResult, DurableTask, Extension, HookApi, HookCall, Hooks, ToolApi, ToolResult
from tarry.client import Conversation
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.documents import NOTES, PLAN, SHARED, Plan, adding, app_doing, echoing
from tests.support.stage import Stage, stage


async def owned(on: Stage, children: list[str]) -> tuple[Conversation, Conversation]:
    """A root conversation, and the one that a call of it owns."""
    root = on.harness.conversation()
    await ask(root, "go")
    return root, on.harness.conversation(children[0])


def owner(children: list[str]) -> App:
    async def work(api: ToolApi) -> None:
        children.append(await api.own_conversation("child"))

    return app_doing(work)


async def test_a_document_of_the_session_is_one_for_a_root_and_all_that_it_owns(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    children: list[str] = []
    async with stage(server, owner(children), tmp_path) as on:
        root, child = await owned(on, children)
        await child.document(SHARED).edit(adding("by the child"))
        await root.document(SHARED).edit(adding("by the root"))
        await child.document(NOTES).edit(adding("its own"))

        assert await child.document(SHARED).get() == Plan(steps=["by the child", "by the root"])
        assert await root.document(NOTES).get() == Plan()
        assert [one.id for one in await child.documents()] == ["app.notes", "app.shared"]
        assert [one.id for one in await root.documents()] == ["app.shared"]
        assert ((await root.view()).documents, (await child.view()).documents) == (2, 1)


async def test_the_root_of_a_session_is_found_over_any_number_of_owners(server: EmbeddedServer, tmp_path: Path) -> None:
    children: list[str] = []
    async with stage(server, owner(children), tmp_path) as on:
        root, child = await owned(on, children)
        task = await on.harness.start_task(echoing(), "hi")
        grandchild, of_a_task = on.harness.conversation(), on.harness.conversation()
        await grandchild.start(owner=f"{child.id}~nonce/g1/t1.0")
        await of_a_task.start(owner=task.id)
        await grandchild.document(SHARED).edit(adding("by the grandchild"))
        await of_a_task.document(SHARED).edit(adding("elsewhere"))

        assert await root.document(SHARED).get() == Plan(steps=["by the grandchild"])
        assert [one.id for one in await of_a_task.documents()] == ["app.shared"]


async def test_hooks_read_what_tools_and_people_have_written(server: EmbeddedServer, tmp_path: Path) -> None:
    async def before(call: HookCall, api: HookApi) -> Block | None:
        frozen = (await api.document(PLAN).get()).steps
        return Block("the plan is frozen") if frozen == ["frozen"] else None

    def after(call: HookCall, result: CallResult, api: HookApi) -> ToolResult:
        return ToolResult(f"{result.text} {api.document(PLAN).get_sync().steps}")

    async def work(api: ToolApi) -> None:
        await api.commit(key="plan", edits=[PLAN.edit(adding("a"))])

    app = app_doing(work)
    gates = Extension("gates", hooks=Hooks(before_tool=before, after_tool=after))
    async with stage(server, replace(app, extensions=[*app.extensions, gates]), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "go")
        await conversation.document(PLAN).edit(lambda _: Plan(steps=["frozen"]))
        answer = await ask(conversation, "go")

    assert answer.texts[0] == "worked ['a']"
    assert "the plan is frozen" in answer.texts[1]


async def test_a_commit_to_both_the_session_and_an_owned_conversation_is_refused_whole(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    children: list[str] = []
    async with stage(server, owner(children), tmp_path) as on:
        root, child = await owned(on, children)
        both = [SHARED.edit(adding("a")), NOTES.edit(adding("a"))]

        with pytest.raises(ValueError, match=f"app.shared.* live in its root conversation {root.id}"):
            await child.commit(edits=both)
        with pytest.raises(ValueError, match="commit them by themselves"):
            await child.commit(notes=["a"], edits=[SHARED.edit(adding("a"))])
        refused = [*await root.documents(), *await child.documents()]
        await root.commit(notes=["a"], edits=both)

        assert refused == []
        assert [one.id for one in await root.documents()] == ["app.notes", "app.shared"]


async def test_a_tool_of_an_owned_conversation_edits_the_session(server: EmbeddedServer, tmp_path: Path) -> None:
    async def work(api: ToolApi) -> str:
        if api.conversation_id.startswith("sub-"):
            await api.commit(key="plan", edits=[SHARED.edit(adding("by the child"))])
            return "edited"
        child = await api.own_conversation("child")
        await api.submit(child, "go", request_id="go")
        return child

    async with stage(server, app_doing(work), tmp_path) as on:
        root = on.harness.conversation()
        child = on.harness.conversation((await ask(root, "go")).texts[0])
        await child.submission("go").wait()

        assert await root.document(SHARED).get() == Plan(steps=["by the child"])


async def test_sync_code_reads_and_edits_too(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    def plan(api: ToolApi) -> str:
        api.commit_sync(key="plan", edits=[PLAN.edit(adding("a"))])
        found = api.document(PLAN).find_sync()
        return f"{found.value} {found.revision} {api.document(PLAN).as_of_sync(0)} {api.document(PLAN).get_sync()}"

    app = App(
        model=ScriptedModel([calls(call("plan")), say("done")]),
        extensions=[Extension("test", [plan], documents=[PLAN])],
    )
    async with stage(server, app, tmp_path) as on:
        answer = await ask(on.harness.conversation(), "go")

    assert answer.texts == ["steps=['a'] 1 steps=[] steps=['a']"]


async def test_a_durable_task_edits_the_documents_of_its_conversation(server: EmbeddedServer, tmp_path: Path) -> None:
    task: DurableTask[str, str] = DurableTask("app.planning", str, str)

    @task.phase
    async def begin(step: str, api: ToolApi) -> str:
        before = await api.document(PLAN).get()
        await api.commit(key="plan", edits=[PLAN.edit(adding(step))])
        return f"{before.steps} {(await api.document(PLAN).get()).steps}"

    @tool
    async def plan(api: ToolApi) -> str:
        child = await api.create_task(task, "a", key="child")
        return (await child.outcome()).result or "nothing"

    app = App(
        model=ScriptedModel([calls(call("plan")), say("done")]),
        extensions=[Extension("test", [plan], tasks=[task], documents=[PLAN])],
    )
    async with stage(server, app, tmp_path) as on:
        alone = await on.harness.start_task(task, "b")
        answer = await ask(on.harness.conversation(), "go")

        assert answer.texts == ["[] ['a']"]
        assert "belongs to no conversation" in (await alone.outcome()).error
