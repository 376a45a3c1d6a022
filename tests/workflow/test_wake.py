"""May the workers be switched off, and when must they be back: asked of a real server (spec §9.3)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from signals.parking import MAX_AHEAD
from tarry.attributes import DEADLINE, STATE
from tarry.client import WakeCheck, WakePlan
from tarry.core.protocol import CONVERSATION, GENERATION, TOOL_CALL
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually
from tests.support.waiting_app import CI_RESULT, app

IDLE = WakePlan(active=False)
BACKLOG = WakePlan(active=True, why="backlog")
RUNNING = WakePlan(active=True, why="running")


@pytest.fixture
async def idle(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage on which the test starts its workers."""
    async with idle_stage(server, app, tmp_path) as made:
        yield made


async def becomes(on: Stage, plan: WakePlan) -> WakePlan:
    """Return when the plan is this one."""
    return await eventually(on.harness.wake, lambda found: found == plan)


async def parked(on: Stage, text: str) -> str:
    """The call that waits as `text` says, its worker still up."""
    conversation = on.harness.conversation(f"c{uuid.uuid4().hex[:8]}")
    await conversation.submit(text)

    async def sleeping() -> list[str]:
        found = [item async for item in on.harness.work(conversation_id=conversation.id)]
        return [item.id for item in found if item.state == "sleeping"]

    return (await eventually(sleeping))[0]


async def test_queue_that_nobody_ever_used_is_idle(idle: Stage) -> None:
    assert await idle.harness.wake() == IDLE


async def test_work_parked_on_signals_alone_needs_no_worker_ever(idle: Stage) -> None:
    async with idle.worker():
        await parked(idle, "done")
        while_up = await becomes(idle, IDLE)
    afterwards = await idle.harness.wake()

    assert (while_up, afterwards) == (IDLE, IDLE)


async def test_signal_to_a_parked_call_with_no_worker_needs_one_and_idle_is_idle_again(idle: Stage) -> None:
    async with idle.worker():
        task_id = await parked(idle, "done")
        await becomes(idle, IDLE)
    await idle.harness.signal(task_id, CI_RESULT.name, "done", {"status": "passed"})
    woken = await idle.harness.wake()
    async with idle.worker():
        await becomes(idle, IDLE)

    assert woken == BACKLOG


async def test_input_with_no_worker_needs_one(idle: Stage) -> None:
    await idle.harness.conversation("never-served").submit("done")

    assert await idle.harness.wake() == BACKLOG


async def test_workers_must_be_back_at_the_earliest_deadline(idle: Stage) -> None:
    async with idle.worker():
        await parked(idle, "done 7200")
        due = (await idle.harness.task(await parked(idle, "done 3600"))).until
        await parked(idle, f"done {90 * 86_400}")
        await becomes(idle, WakePlan(active=False, at=due))

    assert await idle.harness.wake() == WakePlan(active=False, at=due)


async def test_deadline_that_passed_with_no_worker_needs_one(idle: Stage) -> None:
    async with idle.worker():
        await parked(idle, "done 3")
    plan = await eventually(idle.harness.wake, lambda found: found.active)
    async with idle.worker():
        await becomes(idle, IDLE)

    assert plan.why in ("backlog", "deadline")


async def test_running_call_needs_its_worker_and_a_stopped_one_does_not(idle: Stage) -> None:
    async with idle.worker():
        conversation = idle.harness.conversation(f"c{uuid.uuid4().hex[:8]}")
        submission = await conversation.submit("run on")
        await becomes(idle, RUNNING)
        await conversation.abort()
        await submission.wait()
        await becomes(idle, IDLE)


async def test_other_queues_do_not_matter(idle: Stage, server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app, tmp_path / "other") as other:
        await other.harness.conversation("of-another-queue").submit("done")
        assert (await other.harness.wake(), await idle.harness.wake()) == (BACKLOG, IDLE)


@dataclass
class Lists:
    """Workflows as lists show them, whose first task lies an hour ahead: nothing is in their queue."""

    client: Client
    queue: str = field(default_factory=lambda: f"lists-{uuid.uuid4().hex[:8]}")

    async def add(self, kind: str, state: str = "", deadline: datetime | None = None) -> str:
        """One more workflow that is open."""
        pairs: list[SearchAttributePair[Any]] = [SearchAttributePair(STATE, state)] if state else []
        if deadline is not None:
            pairs.append(SearchAttributePair(DEADLINE, deadline))
        handle = await self.client.start_workflow(
            kind,
            id=f"{self.queue}-{uuid.uuid4().hex[:8]}",
            task_queue=self.queue,
            search_attributes=TypedSearchAttributes(pairs),
            start_delay=timedelta(hours=1),
        )
        return handle.id

    async def shows(self, plan: WakePlan, check: WakeCheck | None = None) -> None:
        """Return when that is the plan: lists are some milliseconds behind."""
        check = check or WakeCheck(self.client, self.queue)
        await eventually(check.look, lambda found: found == plan)

    async def settle(self, count: int) -> None:
        """Return when lists show so many."""
        query = f'TaskQueue = "{self.queue}" AND ExecutionStatus = "Running"'

        async def shown() -> int:
            return (await self.client.count_workflows(query)).count

        await eventually(shown, lambda found: found == count)


@pytest.fixture
async def lists(server: EmbeddedServer) -> Lists:
    """No workflow yet."""
    return Lists(await Client.connect(server.address))


async def test_held_and_idle_work_counts_for_neither(lists: Lists) -> None:
    await lists.add(CONVERSATION)
    await lists.add(GENERATION, "held")
    await lists.add(TOOL_CALL, "held")
    await lists.settle(3)

    await lists.shows(IDLE)


async def test_deadline_that_has_passed_needs_a_worker_whatever_the_state(lists: Lists) -> None:
    await lists.add(TOOL_CALL, "sleeping", datetime.now(UTC) - timedelta(seconds=1))

    await lists.shows(WakePlan(active=True, why="deadline"))


async def test_run_without_an_open_call_runs_itself(lists: Lists) -> None:
    await lists.add(GENERATION, "running")

    await lists.shows(RUNNING)


async def test_call_of_one_run_does_not_speak_for_another(lists: Lists) -> None:
    await lists.add(GENERATION, "running")
    await lists.add(TOOL_CALL, "sleeping")
    await lists.settle(2)

    assert await WakeCheck(lists.client, lists.queue).look() == RUNNING


async def test_one_check_sees_what_began_since_its_last_look(idle: Stage) -> None:
    lists = Lists(idle.client, idle.settings.task_queue)
    check = WakeCheck(lists.client, lists.queue)
    async with idle.worker():
        await parked(idle, "done")
        await lists.shows(IDLE, check)
    again = await check.look()
    await lists.add(TOOL_CALL, "sleeping")
    await lists.add(TOOL_CALL, "sleeping")
    await lists.settle(5)
    with_calls = await check.look()
    await lists.add(GENERATION, "running")
    await lists.settle(6)
    with_a_run = await check.look()

    assert (again, with_calls, with_a_run) == (IDLE, IDLE, RUNNING)


async def test_run_whose_call_has_ended_while_another_run_has_two_asks_the_model_itself(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    slow = ScriptedModel.for_each_input(
        [call("wait_for", key="done", seconds=None), say("a long answer", chunks=13, delay=0.3)]
    )
    async with stage(server, replace(app, model=slow), tmp_path) as on:
        lists = Lists(on.client, on.settings.task_queue)
        check = WakeCheck(lists.client, lists.queue)
        task_id = await parked(on, "any")
        # In number it makes up for the call that ends.
        await lists.add(TOOL_CALL, "sleeping")
        await lists.shows(IDLE, check)

        await on.harness.signal(task_id, CI_RESULT.name, "done", {"status": "passed"})

        await _ended(on, task_id)
        await lists.shows(RUNNING, check)
        await lists.shows(IDLE, check)


async def _ended(on: Stage, task_id: str) -> None:
    async def is_over() -> bool:
        query = f'WorkflowId = "{task_id}" AND ExecutionStatus = "Completed"'
        return (await on.client.count_workflows(query)).count == 1

    await eventually(is_over)


@pytest.mark.parametrize("spread", [timedelta(minutes=1), timedelta(microseconds=100)])
async def test_earliest_of_many_deadlines_is_found_and_never_said_too_late(spread: timedelta, lists: Lists) -> None:
    first = datetime.now(UTC) + timedelta(days=3)
    await asyncio.gather(*(lists.add(TOOL_CALL, "sleeping", first + n * spread) for n in range(150)))
    await lists.settle(150)

    plan = await WakeCheck(lists.client, lists.queue).look()

    assert plan.at is not None
    assert timedelta(0) <= first - plan.at <= (timedelta(0) if spread > timedelta(seconds=1) else timedelta(seconds=1))


async def test_deadline_a_hundred_years_ahead_is_found(lists: Lists) -> None:
    far = datetime.now(UTC) + MAX_AHEAD - timedelta(hours=1)
    await lists.add(TOOL_CALL, "sleeping", far)
    await lists.settle(1)

    assert await WakeCheck(lists.client, lists.queue).look() == WakePlan(active=False, at=far)


async def test_watch_tells_each_change_and_idle_only_when_seen_twice(idle: Stage) -> None:
    check = WakeCheck(idle.client, idle.settings.task_queue)
    plans = check.watch()
    async with idle.worker():
        task_id = await parked(idle, "done")
        await becomes(idle, IDLE)
    first = await anext(plans)
    await idle.harness.signal(task_id, CI_RESULT.name, "done", {"status": "passed"})
    second = await anext(plans)
    async with idle.worker():
        later = [await anext(plans)]
        while later[-1].active:
            later.append(await anext(plans))

    assert (first, second, later[-1]) == (IDLE, BACKLOG, IDLE)
    assert all(before != after for before, after in pairwise([first, second, *later]))
