"""What a subagent's conversation and runs tell their tree, played to be kept."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

from tarry import App, Extension, Received, Sleep, ToolApi, Wait
from tarry.acknowledged import Acknowledged
from tarry.client import Conversation
from tarry.core.protocol import PlainSignal
from tarry.core.subagents.protocol import AGENTS, READ_DONE, tree_of
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.replay.scenarios import open_run
from tests.replay.studio import Studio
from tests.support.fake_tree import FakeTree, fake_tree
from tests.support.parking import ANSWER, HOUR, Answer
from tests.support.stage import Stage, app_of
from tests.support.waiting import eventually
from tests.workflow.test_reset import events_of, reset


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


@tool(replay="safe")
async def listen(key: str, api: ToolApi) -> Sleep | str:
    """Wait for one key."""
    found = await api.read_signal(ANSWER, key)
    return found.value.text if isinstance(found, Received) else Sleep(signals=[ANSWER.key(key)], until=HOUR)


@tool(replay="safe")
async def outer(api: ToolApi) -> Wait | str:
    """Wait for a nested call."""
    nested = await api.execute_tool("listen", {"key": "b"}, key="inner", wait=False)
    return Wait([nested.task_id]) if api.wake is None else (await nested.result()).text


@contextlib.asynccontextmanager
async def agent(studio: Studio) -> AsyncIterator[tuple[Stage, FakeTree, Conversation]]:
    """A subagent that has two calls, one with a nested call: all parked, and its permit given back."""
    model = ScriptedModel([calls(call("listen", key="a"), call("outer")), say("done")])
    app = App(model=model, extensions=[Extension("test", [listen, outer], [ANSWER])])
    async with studio.conversation(app) as (on, conversation), fake_tree(on.client, grants=False) as tree:
        await conversation.start(owner="root~nonce/g1/t1.0", tree=tree.id)
        submission = await conversation.submit("go")
        await tree.has_been_told(1)
        yield on, tree, conversation
        await submission.wait()


async def rested_and_granted(studio: Studio) -> None:
    """One call is woken, and waits for the permit; the other one goes on at once after that."""
    async with agent(studio) as (on, tree, conversation):
        run = await open_run(conversation)
        await on.harness.signal(f"{run}/t1.0", ANSWER, "a", Answer(text="yes"))
        await tree.has_been_told(2)
        await tree.grant()
        await tree.has_been_told(3)
        await on.harness.signal(f"{run}/t1.1/k.inner", ANSWER, "b", Answer(text="yes"))


async def stopped_while_it_waits_for_its_permit(studio: Studio) -> None:
    """A call is woken, and stopped before it goes on."""
    async with agent(studio) as (on, tree, conversation):
        await on.harness.signal(f"{await open_run(conversation)}/t1.0", ANSWER, "a", Answer(text="yes"))
        await tree.has_been_told(2)
        await conversation.abort()


async def reset_at_rest(studio: Studio) -> None:
    """A run goes on from before its calls, finds both, and both are woken."""
    async with agent(studio) as (on, tree, conversation):
        run = await open_run(conversation)
        tasks = await events_of(on, run, "WORKFLOW_TASK_COMPLETED")
        await reset(studio.server, run, "--event-id", str(tasks[1]))
        await tree.grant()
        await on.harness.signal(f"{run}/t1.0", ANSWER, "a", Answer(text="yes"))
        await on.harness.signal(f"{run}/t1.1/k.inner", ANSWER, "b", Answer(text="yes"))


async def reset_at_rest_unasked(studio: Studio) -> None:
    """The same, kept from when such a run took it that it had its permit."""
    await reset_at_rest(studio)


_ALL = (
    stopped_with_a_tree,
    acknowledged_result,
    rested_and_granted,
    stopped_while_it_waits_for_its_permit,
    reset_at_rest,
    reset_at_rest_unasked,
)
TURNS = {scenario.__name__: scenario for scenario in _ALL}
