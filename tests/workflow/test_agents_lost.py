"""Trees of agents that lose somebody by force: a child's conversation, or their root's (spec §17.15)."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from tarry.client.errors import AgentRefused, NoSuchAgents
from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import WORK, Grove, grove
from tests.support.waiting import eventually
from workers.lost_sight import look


async def status(on: Grove, workflow_id: str) -> WorkflowExecutionStatus | None:
    return (await on.on.client.get_workflow_handle(workflow_id).describe()).status


async def look_until_told(on: Grove) -> None:
    """The lists are some milliseconds behind."""
    await eventually(lambda: look(on.on.client, on.on.settings.task_queue))


async def test_a_child_whose_conversation_is_terminated_ends_its_turn_as_lost_and_frees_its_permit(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, limit=1, rooted=True) as on:
        child = await on.start("a", WORK + "a")
        await on.start("b", "next")
        await on.work.has_begun("a")
        on.work.is_deaf = True  # or its run ends, and tells it first
        assert await look(on.on.client, on.on.settings.task_queue) == 0

        await on.on.client.get_workflow_handle(child.agent_id).terminate()
        await look_until_told(on)

        lost, answered = await on.completions(2)
        assert (lost.path, lost.status, lost.reason) == ("/root/a", "unanswered", "lost")
        assert (answered.path, answered.text) == ("/root/b", "heard next")
        on.work.let()
        assert await look(on.on.client, on.on.settings.task_queue) == 0


@pytest.mark.parametrize("asked", [WORK + "a", "ask who?"], ids=["at work", "at rest"])
async def test_the_run_of_a_child_that_is_terminated_tells_its_tree_as_it_ends_before_any_worker_looks(
    server: EmbeddedServer, tmp_path: Path, asked: str
) -> None:
    async with grove(server, tmp_path, limit=1, rooted=True) as on:
        child = await on.start("a", asked)
        await on.becomes("/root/a", "running" if asked.startswith(WORK) else "waiting")
        if asked.startswith(WORK):
            await on.work.has_begun("a")
            await on.start("b", "next")

        await on.on.client.get_workflow_handle(child.agent_id).terminate()

        ends = await on.completions(2 if asked.startswith(WORK) else 1)
        assert [(one.path, one.reason) for one in ends] == [("/root/a", "lost"), ("/root/b", "")][: len(ends)]
        assert (await on.tree.list()).permits_used == 0


async def test_an_agent_whose_conversation_is_gone_is_corrupt_once_it_is_to_go_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        child = await on.start("a")
        await on.completions(1)
        await on.on.client.get_workflow_handle(child.agent_id).terminate()

        accepted = await on.follow_up("a", "go on")
        (lost,) = await on.completions(1)

        assert (lost.turn_id, lost.status, lost.reason) == (accepted.turn_id, "unanswered", "lost")
        tree = await on.tree.list()
        assert (tree.agents[0].state, tree.agents[0].pending, tree.permits_used) == ("corrupt", 1, 0)
        with pytest.raises(AgentRefused, match="cannot be used any more"):
            await on.send("a", "once more")


async def test_a_tree_whose_root_is_over_stops_everything_ends_its_conversations_and_ends(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, limit=2, rooted=True) as on:
        children = [await on.start(name, WORK + name) for name in "abc"]
        await on.work.has_begun("a", "b")
        nested = await on.start("d", WORK + "d", by=on.caller(children[0].agent_id, run=0))
        await on.on.client.get_workflow_handle(on.root).terminate()

        await look_until_told(on)
        await eventually(lambda: status(on, on.tree.id), lambda found: found == WorkflowExecutionStatus.COMPLETED)

        ends = {child.path: await status(on, child.agent_id) for child in children[:2]}
        assert set(ends.values()) == {WorkflowExecutionStatus.TERMINATED}
        for never_begun in (children[2], nested):
            with pytest.raises(RPCError, match="not found"):
                await status(on, never_begun.agent_id)
        assert on.work.begun in (["a", "b"], ["b", "a"])
        assert on.work.running == []
        with pytest.raises(NoSuchAgents):
            await on.start("e")
        with pytest.raises(NoSuchAgents):
            await on.begin()


async def test_agents_of_a_tree_that_was_ended_by_force_are_stopped_and_ended(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, rooted=True) as on:
        working = await on.start("a", WORK + "a")
        await on.work.has_begun("a")
        other = await on.on.harness.conversation("agent-of-a-person").submit("hello")
        await other.wait()
        await on.on.client.get_workflow_handle(on.tree.id).terminate()

        await look_until_told(on)

        assert await status(on, working.agent_id) == WorkflowExecutionStatus.TERMINATED
        await eventually(on.work.is_idle)
        assert await status(on, "agent-of-a-person") == WorkflowExecutionStatus.RUNNING
        assert await status(on, on.root) == WorkflowExecutionStatus.RUNNING
        assert await look(on.on.client, on.on.settings.task_queue) == 0


async def test_a_tree_of_a_conversation_whose_id_another_one_has_is_collected(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, rooted=True) as on:
        await on.start("a")
        await on.completions(1)
        await on.on.client.get_workflow_handle(on.root).terminate()
        await (await on.on.harness.conversation(on.root).submit("anew")).wait()

        await look_until_told(on)

        await eventually(lambda: status(on, on.tree.id), lambda found: found == WorkflowExecutionStatus.COMPLETED)
        assert await status(on, on.root) == WorkflowExecutionStatus.RUNNING


async def test_nothing_is_started_in_a_tree_that_is_being_collected(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path, rooted=True) as on:
        await on.start("a", WORK + "a")
        await on.work.has_begun("a")
        on.work.is_deaf = True

        await on.on.client.get_workflow_handle(on.tree.id).signal("tarry.agents.collect")

        with pytest.raises(AgentRefused, match="is over"):
            await on.start("b", by=on.caller(run=9))
