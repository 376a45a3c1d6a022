"""Stops of a tree of agents: of a conversation above it, or of the tree itself (spec §17.11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.client.errors import AgentRefused
from tarry.core.subagents.protocol import STOPPED, StopBelow
from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import WORK, Grove, grove
from tests.support.waiting import eventually
from tests.workflow.test_steers import users


async def how_they_ended(on: Grove, number: int) -> dict[str, str]:
    return {one.path: one.reason or one.status for one in await on.completions(number)}


async def test_a_stop_of_the_root_stops_what_runs_and_what_is_queued_and_nothing_of_that_run_begins_later(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, limit=2, rooted=True) as on:
        for name in "abcd":
            await on.start(name, WORK + name)
        await on.work.has_begun("a", "b")

        await on.on.harness.conversation(on.root).abort()

        assert await how_they_ended(on, 4) == {f"/root/{name}": "aborted" for name in "abcd"}
        assert on.work.running == []
        with pytest.raises(AgentRefused, match="was stopped") as refused:
            await on.start("e")
        assert refused.value.code == "stopped"
        await on.start("e", by=on.caller(run=2))
        assert [one.text for one in await on.completions(1, run=2)] == ["heard go"]
        assert sorted(on.work.begun) == ["a", "b"]


async def test_a_stop_of_a_child_stops_all_below_it_and_nothing_beside_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        parent = await on.start("parent", WORK + "p")
        await on.start("beside", WORK + "b")
        await on.start("child", WORK + "c", by=on.caller(parent.agent_id))
        await on.work.has_begun("p", "b", "c")

        await on.interrupt("parent")

        await eventually(lambda: on.state("/root/parent/child"), lambda state: state == "idle")
        assert [one.path for one in await on.completions(1)] == ["/root/parent"]
        assert await on.state("/root/beside") == "running"


async def test_a_cancel_of_the_tree_stops_everything_and_the_tree_lives_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, limit=1) as on:
        await on.start("a", WORK + "a")
        await on.start("b", "queued")
        await on.work.has_begun("a")

        assert await on.on.harness.abort(on.tree.id)

        assert await how_they_ended(on, 2) == {"/root/a": "aborted", "/root/b": "aborted"}
        await on.start("c", by=on.caller(run=2))
        assert await how_they_ended(on, 1) == {"/root/c": "done"}
        await on.start("d", WORK + "d", by=on.caller(run=2))
        await on.work.has_begun("d")
        await on.on.harness.abort(on.tree.id)
        assert await how_they_ended(on, 1) == {"/root/d": "aborted"}


async def test_a_stop_of_an_earlier_run_stops_nothing_that_a_later_one_asked_for(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a", WORK + "a", by=on.caller(run=2))
        await on.work.has_begun("a")

        handle = on.on.client.get_workflow_handle(on.tree.id)
        await handle.signal(STOPPED, StopBelow(conversation_id=on.root, run=1))

        # What comes later is taken up later.
        await on.send("a", "go on", by=on.caller(run=2))
        assert await on.state("/root/a") == "running"


async def test_what_joined_a_turn_that_was_stopped_before_it_was_read_stands_before_the_next_and_is_told_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a", WORK + "a")
        await on.work.has_begun("a")
        assert (await on.follow_up("a", "and this")).state == "joined"

        async def queued() -> tuple[str, ...]:
            conversation = on.on.harness.conversation((await on.row("/root/a")).agent_id)
            return (await conversation.view()).queued

        await eventually(queued)
        await on.interrupt("a")

        assert [one.reason for one in await on.completions(1)] == ["aborted"]
        row = await on.row("/root/a")
        assert row.pending == 0
        await on.follow_up("a", "go on")
        assert [one.text for one in await on.completions(1)] == ["heard go on"]
        said = users(await on.on.harness.conversation(row.agent_id).transcript())
        assert said == [WORK + "a", "and this", "go on"]
