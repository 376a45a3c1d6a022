"""A result can carry words to other workflows, which leave once it is in the history of its call (spec §17.13)."""

from __future__ import annotations

import threading
from pathlib import Path

from tarry import App, Extension, ToolApi
from tarry.acknowledged import Acknowledged
from tarry.core.protocol import PlainSignal
from tarry.core.subagents.protocol import READ_DONE
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tarry.tools import Tool, tool
from tests.support.fake_tree import fake_tree
from tests.support.stage import Stage, app_of, stage
from tests.support.waiting import eventually

TREE = "acks~nonce/agents"


def done(task_id: str, tree_id: str) -> PlainSignal:
    return PlainSignal(workflow_id=tree_id, name=READ_DONE, value={"task_id": task_id})


def reader(tree_id: str) -> Tool:
    @tool(replay="safe")
    def read(api: ToolApi) -> Acknowledged:
        """Read."""
        return Acknowledged("what was read", acks=(done(api.task_id, tree_id),))

    return read


async def called(on: Stage) -> tuple[str, str]:
    """The id of the call that the run makes, and what its result says."""
    conversation = on.harness.conversation()
    submission = await conversation.submit("go")
    await submission.wait()
    results = [entry for entry in await conversation.transcript() if entry.kind == "tool_result"]
    assert results[0].tool is not None
    assert results[0].message is not None
    return results[0].tool.task_id, results[0].message.text


async def test_an_acknowledgement_leaves_between_the_result_and_the_end_of_its_call(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a result with an acknowledgement, when its call ends, the other one was told before, once."""
    app = app_of(ScriptedModel([call("read"), say("done")]), reader(TREE))
    async with stage(server, app, tmp_path) as on, fake_tree(on.client, TREE) as tree:
        task_id, text = await called(on)

        assert await tree.told() == [("read-done", {"task_id": task_id})]
        assert text == "what was read"
        events = (await on.histories(task_id.partition("~")[0]))[task_id]
        assert [event for event in events if "WORKFLOW_TASK" not in event] == [
            "WORKFLOW_EXECUTION_STARTED",
            "ACTIVITY_TASK_SCHEDULED",
            "ACTIVITY_TASK_STARTED",
            "ACTIVITY_TASK_COMPLETED",
            "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED",
            "EXTERNAL_WORKFLOW_EXECUTION_SIGNALED",
            "WORKFLOW_EXECUTION_COMPLETED",
        ]


async def test_who_is_gone_keeps_no_call_from_ending(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given an acknowledgement for a workflow that is nowhere, when its call ends, the result is what it was."""
    app = app_of(ScriptedModel([call("read"), say("done")]), reader("nowhere~nonce/agents"))
    async with stage(server, app, tmp_path) as on:
        assert (await called(on))[1] == "what was read"


async def test_a_call_that_was_stopped_acknowledges_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a tool that returns a result after it was stopped, when its call ends as aborted, nobody is told."""
    begun = threading.Event()

    @tool(replay="safe")
    def read(api: ToolApi) -> Acknowledged:
        """Read, and notice the Stop late."""
        begun.set()
        while not api.is_cancelled:
            threading.Event().wait(0.02)
        return Acknowledged("what was read", acks=(done(api.task_id, tree.id),))

    app = app_of(ScriptedModel([call("read"), say("done")]), read)
    async with stage(server, app, tmp_path, heartbeat_timeout=4.0) as on, fake_tree(on.client) as tree:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")

        async def is_begun() -> bool:
            return begun.is_set()

        await eventually(is_begun)
        await conversation.abort()

        await submission.wait()
        assert await tree.told() == []


async def test_a_nested_call_acknowledges_its_result_itself(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a tool whose nested call acknowledges, when both end, the other one was told once, by the nested call."""

    @tool(replay="safe")
    async def outer(api: ToolApi) -> str:
        """Have something read."""
        return (await api.execute_tool("read", {}, key="inner")).text

    app = App(
        model=ScriptedModel([call("outer"), say("done")]),
        extensions=[Extension("test", [outer, reader("nested~nonce/agents")])],
    )
    async with stage(server, app, tmp_path) as on, fake_tree(on.client, "nested~nonce/agents") as tree:
        task_id, text = await called(on)

        assert text == "what was read"
        assert await tree.told() == [("read-done", {"task_id": f"{task_id}/k.inner"})]


async def test_an_acknowledgement_that_no_server_takes_is_left_out(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a result whose acknowledgement names no workflow, when its call ends, the result is what it was."""

    @tool
    def read() -> Acknowledged:
        """Read."""
        return Acknowledged("what was read", acks=(PlainSignal(workflow_id="", name=READ_DONE),))

    async with stage(server, app_of(ScriptedModel([call("read"), say("done")]), read), tmp_path) as on:
        assert (await called(on))[1] == "what was read"
