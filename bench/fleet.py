"""Many tool calls that park, each a workflow started alone: it has no conversation, whose cost would hide its own."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest
from temporalio.common import SearchAttributePair, TypedSearchAttributes

from bench.histories import Cost, cost_of
from bench.parked_app import GO, KEY, Sent, waits
from bench.support import TASK_QUEUE, Rig
from tarry.attributes import STATE, TOOL
from tarry.core.messages import AssistantMessage, ToolCallRequest
from tarry.core.protocol import TOOL_CALL, RunSettings, ToolOutcome
from tarry.core.resolve import resolve_calls
from tarry.core.task_state import ToolCallInput

_AT_ONCE = 64
"""Requests to the server at a time: it has one shard, and each waits for a connection and a file descriptor."""
_LOOK = 0.15
"""Seconds between two looks at a list: its server answers ten a second."""
_PATIENCE = 60.0
"""Seconds without any progress after which something hangs."""

Send = Callable[[str], Awaitable[None]]
Item = TypeVar("Item")
Made = TypeVar("Made")


class Fleet:
    """The calls of one rig, all in one task queue."""

    def __init__(self, on: Rig) -> None:
        self._on = on
        self._numbers = itertools.count()
        self.parked: list[str] = []
        """Those that wait, oldest first."""

    async def park(self, calls: int) -> float:
        """Start that many; the seconds until lists show all of them parked."""
        ids = [f"bench-{next(self._numbers)}~n/g1/t1.0" for _ in range(calls)]
        began = time.perf_counter()
        await each(ids, self._start)
        self.parked += ids
        await self._until(f'{STATE.name} = "sleeping"', len(self.parked))
        return time.perf_counter() - began

    async def _start(self, id: str) -> None:
        request = ToolCallRequest(call_id="c1", name=waits.name, arguments="{}")
        message = AssistantMessage(calls=(request,), stop="tool_use")
        (call,) = resolve_calls(message, {waits.name: waits})
        generation = id.rpartition("/")[0]
        conversation = generation.partition("~")[0]
        await self._on.client.start_workflow(
            TOOL_CALL,
            ToolCallInput(
                conversation_id=conversation,
                generation_id=generation,
                call=call,
                settings=RunSettings(),
                takes_signals=True,
                judged_by_pass=True,
            ),
            id=id,
            task_queue=TASK_QUEUE,
            search_attributes=TypedSearchAttributes(
                [SearchAttributePair(STATE, "running"), SearchAttributePair(TOOL, waits.name)]
            ),
        )

    async def send_signal(self, id: str) -> None:
        """Wake a call by plain signal, as any shell can: the server alone takes it."""
        value = GO.dump(Sent(at=time.time()))
        await self._on.client.get_workflow_handle(id).signal(GO.name, {"key": KEY, "value": value})

    async def send_update(self, id: str) -> None:
        """Wake a call as a client of ours does, which waits for the answer."""
        told = await self._on.harness.signal(id, GO, KEY, Sent(at=time.time()))
        if told.answer != "delivered":
            raise AssertionError(told)

    async def wake(self, ids: Sequence[str], send: Send) -> list[float]:
        """Wake calls one by one, each when the one before has ended: the seconds from sending to the woken run."""
        seconds: list[float] = []
        for id in ids:
            await send(id)
            seconds.append(await self._latency(id))
            self.parked.remove(id)
        return seconds

    async def signal_all(self) -> float:
        """Leave a plain signal for each parked call; the seconds that took."""
        began = time.perf_counter()
        await each(self.parked, self.send_signal)
        return time.perf_counter() - began

    async def drained(self) -> None:
        """Return when the last of the parked calls has ended; each of them must have been woken by its value."""
        await self._until('ExecutionStatus = "Running"', 0)

    async def check_woken(self) -> None:
        """Raise unless every call that was parked has ended with the value it was sent."""
        await each(self.parked, self._latency)
        self.parked.clear()

    async def sizes(self) -> list[Cost]:
        """The history of each parked call, as the server counts it."""
        return await each(self.parked, self._size)

    async def conversation_cost(self) -> Cost:
        """What a parked call costs together with the conversation and the run that called it; it stays parked."""
        conversation = self._on.harness.conversation("bench")
        await conversation.submit("Wait.")
        await self._until(f'{STATE.name} = "sleeping"', len(self.parked) + 1)
        return await cost_of(self._on.client, conversation.id)

    async def _size(self, id: str) -> Cost:
        info = (await self._on.client.get_workflow_handle(id).describe()).raw_description.workflow_execution_info
        return Cost(events=info.history_length, bytes=info.history_size_bytes)

    async def _latency(self, id: str) -> float:
        outcome = await self._on.client.get_workflow_handle(id, result_type=ToolOutcome).result()
        return float(outcome.text)

    async def _until(self, what: str, wanted: int) -> None:
        """Return when lists show so many."""
        query = f'TaskQueue = "{TASK_QUEUE}" AND WorkflowType = "{TOOL_CALL}" AND {what}'
        last, since = -1, time.monotonic()
        while (found := (await self._on.client.count_workflows(query)).count) != wanted:
            if found != last:
                last, since = found, time.monotonic()
            elif time.monotonic() - since > _PATIENCE:
                raise TimeoutError(f"{found} of {wanted} calls for {_PATIENCE:g} s: {what}")
            await asyncio.sleep(_LOOK)


async def pollers_since(on: Rig, moment: float) -> int:
    """How many workers have asked for tasks since then, counted for each kind of task."""
    pollers = 0
    for kind in (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY):
        request = DescribeTaskQueueRequest(
            namespace=on.client.namespace, task_queue=TaskQueue(name=TASK_QUEUE), task_queue_type=kind
        )
        found = await on.client.workflow_service.describe_task_queue(request)
        # Who has gone is listed for minutes.
        pollers += sum(poller.last_access_time.ToMicroseconds() / 1e6 > moment for poller in found.pollers)
    return pollers


async def each(items: Iterable[Item], act: Callable[[Item], Awaitable[Made]]) -> list[Made]:
    """What came of all, in order, a bounded number of them at a time."""
    free = asyncio.Semaphore(_AT_ONCE)

    async def bounded(item: Item) -> Made:
        async with free:
            return await act(item)

    return await asyncio.gather(*(bounded(item) for item in items))
