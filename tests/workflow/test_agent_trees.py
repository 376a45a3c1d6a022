"""What a subagent does knows the tree that it is part of; what a root does, where its own would be (§17.10)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tarry import App, DurableTask, Extension, Hooks, HookTask, ToolApi, Turn
from tarry.core.protocol import MODEL_REQUEST, ModelRequestInput
from tarry.core.subagents.protocol import tree_of
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.stage import Stage, stage

TREE = "root~nonce/agents"


def trees() -> tuple[App, dict[str, str]]:
    """An application whose code notes the tree that it is told, by where it runs."""
    seen: dict[str, str] = {}

    def note(where: str, api: Any) -> None:
        seen[where] = api.tree

    @tool(replay="safe")
    async def inner(api: ToolApi) -> str:
        """Is called by the outer tool."""
        note("nested call", api)
        return "done"

    task: DurableTask[str, dict[str, Any]] = DurableTask("test.task", str, dict[str, Any])

    @task.phase
    async def phase(told: str, api: ToolApi) -> dict[str, Any]:
        note(told, api)
        return {}

    @tool(replay="safe")
    async def outer(api: ToolApi) -> str:
        """Call the inner tool, and a task."""
        note("call", api)
        await api.execute_tool("inner", {}, key="inner")
        await (await api.create_task(task, "child task", key="task")).outcome()
        return "done"

    def after_tools(turn: Turn) -> list[HookTask]:
        return [HookTask(task, "task of a hook")]

    app = App(
        model=ScriptedModel([call("outer"), say("done")]),
        extensions=[Extension("test", [outer, inner], tasks=[task], hooks=Hooks(after_tools=after_tools))],
    )
    return app, seen


async def requests(s: Stage, generation_id: str) -> list[ModelRequestInput]:
    """What the model activities of a run were given."""
    history = await s.client.get_workflow_handle(generation_id).fetch_history()
    scheduled = [event.activity_task_scheduled_event_attributes for event in history.events]
    payloads = [list(made.input.payloads) for made in scheduled if made.activity_type.name == MODEL_REQUEST]
    return [(await s.client.data_converter.decode(found, [ModelRequestInput]))[0] for found in payloads]


WHERE = ("call", "nested call", "child task", "task of a hook")


async def test_what_a_subagent_does_knows_its_tree(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a conversation that was started with a tree, when it answers, all that it runs is told of that tree."""
    app, seen = trees()
    async with stage(server, app, tmp_path) as s:
        conversation = s.harness.conversation()
        await conversation.start(owner="root~nonce/g1/t1.0", tree=TREE)
        submission = await conversation.submit("go")
        await submission.wait()
        view = await submission.status()
        assert seen == dict.fromkeys(WHERE, TREE)
        assert [asked.tree for asked in await requests(s, view.generation_id)] == [TREE, TREE]


async def test_what_a_root_does_knows_where_its_tree_would_be(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a conversation without a tree, when it answers, its code goes by the id that its own tree would have."""
    app, seen = trees()
    async with stage(server, app, tmp_path) as s:
        submission = await s.harness.conversation().submit("go")
        await submission.wait()
        view = await submission.status()
        assert seen == dict.fromkeys(WHERE, tree_of(view.generation_id))
        assert [asked.tree for asked in await requests(s, view.generation_id)] == ["", ""]
