"""A tree of agents: children begin by themselves, execute within its permits, and are read once (spec §17)."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tarry.client.errors import AgentRefused
from tarry.core.messages import UserMessage
from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import WORK, grove
from tests.support.waiting import eventually


async def test_children_that_were_started_execute_and_their_completions_are_read_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        a, b = await on.start("a", "one"), await on.start("b", "two")

        read = await on.completions(2)

        assert (a.path, a.state, b.path, b.state) == ("/root/a", "running", "/root/b", "running")
        assert {(one.path, one.status, one.text) for one in read} == {
            ("/root/a", "done", "heard one"),
            ("/root/b", "done", "heard two"),
        }
        again = await on.read()
        assert (again.completions, set(again.already_read)) == ((), {"/root/a", "/root/b"})
        assert [row.state for row in (await on.tree.list()).agents] == ["idle", "idle"]


async def test_never_more_turns_execute_than_there_are_permits_and_the_root_queues_in_order(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, limit=2) as on:
        started = [await on.start(name, WORK + name) for name in "abcdef"]
        await on.work.has_begun("a", "b")
        tree = await on.tree.list()

        assert [one.state for one in started] == ["running"] * 2 + ["queued"] * 4
        assert (tree.permits, tree.permits_used, tree.queued) == (2, 2, 4)
        for ended, next_one in zip("badc", "cdef", strict=True):
            on.work.let(ended)
            await on.work.has_begun(next_one)
        on.work.let()

        read = await on.completions(6)
        assert {one.text for one in read} == {f"done {WORK}{name}" for name in "abcdef"}
        assert on.work.begun[2:] == ["c", "d", "e", "f"]
        assert on.work.peak == 2


async def test_nested_work_that_finds_no_permit_fails_at_once_and_takes_no_place_in_the_queue(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, limit=1) as on:
        parent = await on.start("parent", WORK + "p")
        await on.work.has_begun("p")

        with pytest.raises(AgentRefused, match="nested work does not queue") as refused:
            await on.start("child", by=on.caller(parent.agent_id))

        assert refused.value.code == "capacity"
        assert [row.path for row in (await on.tree.list()).agents] == ["/root/parent"]


async def test_messages_wait_until_a_follow_up_and_are_one_turn_with_it(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        child = await on.start("a")
        await on.completions(1)

        sent = [await on.send("/root/a", "first"), await on.send("a", "second")]
        assert [one.pending for one in sent] == [1, 2]
        assert (await on.row("/root/a")).state == "idle"
        accepted = await on.follow_up("./a", "third")

        assert (accepted.messages, accepted.state) == (3, "running")
        (completion,) = await on.completions(1)
        assert (completion.turn_id, completion.text) == (accepted.turn_id, "heard first\n\nsecond\n\nthird")
        assert (await on.row("/root/a")).pending == 0
        entries = await on.on.harness.conversation(child.agent_id).transcript()
        inputs = [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]
        assert inputs == ["go", "first\n\nsecond\n\nthird"]


async def test_a_follow_up_while_the_child_works_goes_into_its_turn(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        started = await on.start("a", WORK + "a")
        await on.work.has_begun("a")

        accepted = await on.follow_up("a", "and this")

        assert (accepted.state, accepted.turn_id) == ("joined", started.turn_id)
        on.work.let()
        (completion,) = await on.completions(1)
        assert (completion.turn_id, completion.text) == (started.turn_id, "heard and this")


async def test_an_interrupted_child_ends_its_turn_and_goes_on_with_the_next(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a", WORK + "a")
        await on.work.has_begun("a")

        assert (await on.interrupt("a")).state == "stopping"
        (completion,) = await on.completions(1)
        again = await on.interrupt("a")

        assert (completion.status, completion.reason) == ("unanswered", "aborted")
        assert again.state == "idle"
        assert (await on.tree.list()).permits_used == 0
        await on.follow_up("a", "go on")
        assert [one.text for one in await on.completions(1)] == ["heard go on"]


async def test_what_a_call_read_that_is_over_without_a_result_is_unread_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a", "one")
        reader, other = on.caller(), on.caller()
        updates = await eventually(lambda: on.read(reader), lambda told: bool(told.completions))

        given_back = await eventually(lambda: on.read(other), lambda told: bool(told.completions))

        assert [one.text for one in updates.completions] == [one.text for one in given_back.completions]
        await on.read_done(other)
        assert (await on.read(on.caller())).completions == ()


async def test_a_conversation_knows_its_path_its_owner_and_its_tree(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        by = on.caller()
        child = await on.start("a", by=by)
        await on.completions(1)

        found = await on.on.client.get_workflow_handle(child.agent_id).describe()
        memo = {name: await found.memo_value(name) for name in ("tarry.owner", "tarry.path")}
        assert memo == {"tarry.owner": by.task_id, "tarry.path": "/root/a"}


async def test_a_person_writes_to_any_agent_and_is_queued_where_a_nested_call_is_refused(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, limit=2) as on:
        parent = await on.start("parent", WORK + "p")
        await on.start("child", by=on.caller(parent.agent_id))
        await on.becomes("/root/parent/child", "idle")
        await on.start("other", WORK + "o")
        await on.work.has_begun("p", "o")

        await on.send("/root/parent/child", "from a person", by=on.tree.person())
        accepted = await on.follow_up("parent/child", by=on.tree.person())

        assert (accepted.state, accepted.messages) == ("queued", 1)
        on.work.let()
        row = await eventually(partial(on.row, "/root/parent/child"), lambda row: row.turns == 2 and not row.turn_id)
        assert (row.updates, row.pending) == (0, 0)
