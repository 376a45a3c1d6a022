"""What a subagent's conversation and runs tell their tree, played to be kept."""

from __future__ import annotations

from datetime import timedelta

from tarry import Sleep, ToolApi
from tarry.acknowledged import Acknowledged
from tarry.core.protocol import PlainSignal
from tarry.core.subagents.protocol import AGENTS, READ_DONE, tree_of
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.replay.studio import Studio
from tests.support.fake_tree import fake_tree
from tests.support.stage import app_of
from tests.support.waiting import eventually


@tool(replay="safe")
def wait() -> Sleep:
    """Wait for a long time."""
    return Sleep(until=timedelta(hours=1), ask="how long?")


async def stopped_with_a_tree(studio: Studio) -> None:
    """A root that knows its tree is stopped by Temporal's cancel, and turns over; stopped again, it tells of both."""
    app = app_of(ScriptedModel.for_each_input([call("wait"), say("done")]), wait)
    async with studio.conversation(app) as (on, conversation):
        await conversation.configure(cwd="/")
        view = await conversation.view()
        async with fake_tree(on.client, tree_of(f"{view.conversation_id}~{view.nonce}")) as tree:
            await on.client.get_workflow_handle(conversation.id).signal(AGENTS)
            submission = await conversation.submit("go")
            await eventually(lambda: on.harness.questions(conversation.id))
            await on.client.get_workflow_handle(conversation.id).cancel()
            await submission.wait()
            await tree.has_been_told(1)
            await conversation.abort()
            await tree.has_been_told(2)


async def acknowledged_result(studio: Studio) -> None:
    """A result carries a word to a tree, and another one to a workflow that is nowhere."""
    tree_id = "acknowledged~nonce/agents"

    @tool(replay="safe")
    def read(api: ToolApi) -> Acknowledged:
        told = {"task_id": api.task_id}
        ids = (tree_id, "nowhere~nonce/agents")
        return Acknowledged("read", acks=tuple(PlainSignal(workflow_id=id, name=READ_DONE, value=told) for id in ids))

    app = app_of(ScriptedModel([call("read"), say("done")]), read)
    async with studio.conversation(app) as (on, conversation), fake_tree(on.client, tree_id):
        await (await conversation.submit("go")).wait()


TURNS = {scenario.__name__: scenario for scenario in (stopped_with_a_tree, acknowledged_result)}
