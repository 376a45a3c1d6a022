"""Permits of agents whose turns wait: given back while nothing of them executes, and asked for again (spec §17.4)."""

from __future__ import annotations

from pathlib import Path

from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import ANSWER, WORK, Answered, Grove, grove
from tests.support.waiting import eventually
from tests.workflow.test_reset import events_of, open_run, reset


async def answer(on: Grove) -> None:
    """Answer the one question that there is."""
    (question,) = await eventually(lambda: on.on.harness.questions(on.root))
    await on.on.harness.signal(question.task_id, ANSWER, "answer", Answered(text="yes"))


async def test_a_child_that_waits_for_a_person_holds_no_permit_and_goes_on_before_any_that_starts(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path, limit=1, rooted=True) as on:
        await on.start("asks", "ask whom?")
        await on.becomes("/root/asks", "waiting")
        await on.start("b", WORK + "b")
        await on.work.has_begun("b")
        await on.start("c", WORK + "c")
        assert (await on.tree.list()).permits_used == 1

        await answer(on)
        await eventually(lambda: on.row("/root/asks"), lambda row: row.waits_for == "a permit")
        on.work.let("b")
        on.work.let()

        read = await on.completions(3)
        assert [one.path for one in read] == ["/root/b", "/root/asks", "/root/c"]
        assert [one.text for one in read][1] == "done ask whom?"
        assert on.work.peak == 1


async def test_a_child_at_rest_whose_run_is_reset_queues_for_the_permit_that_another_one_has(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """From before its question it finds the call that asked it, rests again, and goes on when it is answered."""
    async with grove(server, tmp_path, limit=1, rooted=True) as on:
        child = await on.start("asks", "ask whom?")
        await on.becomes("/root/asks", "waiting")
        await on.start("b", WORK + "b")
        await on.work.has_begun("b")
        run_id = await open_run(on.on.harness.conversation(child.agent_id))
        tasks = await events_of(on.on, run_id, "WORKFLOW_TASK_COMPLETED")

        await reset(server, run_id, "--event-id", str(tasks[1]))
        await eventually(lambda: on.row("/root/asks"), lambda row: row.waits_for == "a permit")
        on.work.let("b")
        assert [one.path for one in await on.completions(1)] == ["/root/b"]
        await on.becomes("/root/asks", "waiting")
        await eventually(on.tree.list, lambda tree: tree.permits_used == 0)
        await answer(on)

        assert [one.text for one in await on.completions(1)] == ["done ask whom?"]


async def test_a_stop_ends_a_child_that_waits_for_a_person(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path, limit=1, rooted=True) as on:
        await on.start("asks", "ask whom?")
        await on.becomes("/root/asks", "waiting")

        await on.on.harness.conversation(on.root).abort()

        assert [(one.path, one.reason) for one in await on.completions(1)] == [("/root/asks", "aborted")]
        assert await on.on.harness.questions(on.root) == []
