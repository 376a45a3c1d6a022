"""Conversations end to end on a real server: submissions, order, repeats, Stop (spec §6, §7)."""

from __future__ import annotations

from pathlib import Path

from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.stage import app_of, stage


@tool(replay="safe")
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


LOOKS = app_of(ScriptedModel.for_each_input([call("look", what="x"), say("it was x")]), look)


async def test_a_run_with_one_call_costs_at_most_fifty_three_events(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, LOOKS, tmp_path) as on:
        conversation = on.harness.conversation()
        settled = await (await conversation.submit("what is it?")).wait()
        assert (settled.status, settled.answer_text) == ("done", "it was x")
        histories = await on.histories(conversation.id)
    counts = {workflow_id.removeprefix(conversation.id): len(events) for workflow_id, events in histories.items()}
    assert sum(counts.values()) <= 53, counts
    assert len(counts) == 3
