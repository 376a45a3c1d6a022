"""A tree of agents whose workflow is reset: what its agents did meanwhile is done, and found out (spec §17.14)."""

from __future__ import annotations

from pathlib import Path

from temporalio.api.enums.v1 import EventType

from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import Grove, grove
from tests.support.shell import succeeds
from tests.support.waiting import eventually


async def test_a_turn_that_ended_before_its_tree_was_reset_ends_there_too_though_nobody_tells_it_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a turn that has ended, when its tree is reset to before it began, without what it was told since, then
    the turn begins and ends once more in the tree, its permit is free, and its conversation has it once."""
    async with grove(server, tmp_path, limit=1, rooted=True) as on:
        child = await on.start("a", "one")
        (before,) = await on.completions(1)
        conversation = on.on.harness.conversation(child.agent_id)
        entries = await conversation.transcript()

        place = ("--event-id", str(await task_that_began_the_turn(on)), "--reapply-exclude", "All")
        await succeeds(server, "workflow", "reset", "--workflow-id", on.tree.id, "--reason", "drill", *place)

        found = await eventually(on.tree.list, lambda found: all(row.state == "idle" for row in found.agents))
        assert (found.permits_used, found.queued, [row.turns for row in found.agents]) == (0, 0, [1])
        (again,) = (await on.read()).completions
        assert again.model_copy(update={"ended": before.ended}) == before
        assert await conversation.transcript() == entries


async def task_that_began_the_turn(on: Grove) -> int:
    """The workflow task of the tree that ordered its first turn: behind the one that ordered to tell the root."""
    history = await on.on.client.get_workflow_handle(on.tree.id).fetch_history()
    scheduled = [event for event in history.events if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED]
    return scheduled[1].activity_task_scheduled_event_attributes.workflow_task_completed_event_id
