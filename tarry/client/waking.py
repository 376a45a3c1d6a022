"""May the workers be switched off, and when must they be back? Told by the server alone, with no worker up (spec §9.3).

What needs a worker shows as a task in the queue, as a state, or as a deadline that has passed. Almost all of it is
counted, so that looking at ten thousand parked tasks costs what looking at one does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta

from temporalio.api.workflow.v1 import WorkflowExecutionInfo
from temporalio.client import Client
from temporalio.converter import decode_typed_search_attributes

from signals.parking import MAX_AHEAD
from tarry.attributes import DEADLINE, STATE
from tarry.client.errors import reaching_server
from tarry.client.lists import QueueLists, literal
from tarry.client.pairing import Pairing
from tarry.client.workers import ACTIVITIES, WORKFLOWS, has_backlog
from tarry.core.protocol import GENERATION
from tarry.core.routing import ALL, DEFAULT, queue_of
from tarry.core.wake_plan import WakePlan, Why

_RUNS_ITSELF = f'WorkflowType != "{GENERATION}" AND {STATE.name} = "running"'

_WINDOWS = (timedelta(hours=1), timedelta(days=1), timedelta(days=30), timedelta(days=900), MAX_AHEAD)
_PRECISION = timedelta(seconds=1)
_FEW = 100

_SHORTEST_PAUSE = 2.0
_LOAD = 0.1
"""The part of the time that looking may take."""


class WakeCheck:
    """Looks at one deployment, for the workers that `serves` names, `default` for workflows and code that names none.

    Keep it for the next look: what has not changed is not read again.
    """

    def __init__(self, client: Client, task_queue: str, serves: Sequence[str] = (DEFAULT,)) -> None:
        self._client = client
        special = [name for name in serves if name not in (DEFAULT, ALL)]
        # All that runs keeps the default worker: what runs elsewhere asks its workflow for this and that.
        self._is_default = len(special) < len(serves)
        self._queues = [(queue_of(task_queue, name), ACTIVITIES) for name in special]
        if self._is_default:
            self._queues += [(task_queue, WORKFLOWS), (task_queue, ACTIVITIES)]
        self._lists = QueueLists(client, task_queue, () if self._is_default else special)
        self._pairing = Pairing(self._lists)

    @reaching_server()
    async def look(self) -> WakePlan:
        """How it stands. In the moment in which a worker takes a task, neither queue nor state tells of it.

        Raises:
            ServerUnavailable: no server answers.
        """
        now = datetime.now(UTC)
        why = await self._why(now)
        return WakePlan(active=True, why=why) if why else WakePlan(active=False, at=await self._first_deadline(now))

    async def watch(self) -> AsyncIterator[WakePlan]:
        """The plan, and each other plan as it comes, for ever. That nothing is active counts when seen twice in a row.

        Looking takes a tenth of the time at most, and a pause is two seconds or longer.

        Raises:
            ServerUnavailable: no server answers. Watching can be begun again.
        """
        told: WakePlan | None = None
        was_active = True
        while True:
            began = time.monotonic()
            plan = await self.look()
            pause = max(_SHORTEST_PAUSE, (time.monotonic() - began) / _LOAD)
            if plan != told and (plan.active or not was_active):
                told = plan
                yield plan
            was_active = plan.active
            await asyncio.sleep(pause)

    async def _why(self, now: datetime) -> Why:
        if await self._has_backlog():
            return "backlog"
        if await self._lists.count_open(_RUNS_ITSELF):
            return "running"
        if await self._lists.count_open(f"{DEADLINE.name} <= {literal(now)}"):
            return "deadline"
        return "running" if self._is_default and await self._pairing.has_lone_run(now) else ""

    async def _has_backlog(self) -> bool:
        for queue, kind in self._queues:
            if await has_backlog(self._client, queue, kind):
                return True
        return False

    async def _first_deadline(self, now: datetime) -> datetime | None:
        """The earliest deadline ahead; of very many within a second, one that is up to a second too early.

        The dev server's lists cannot be sorted. Counts in ever smaller windows find it in a few dozen short questions.
        """
        low, high = now, now
        for window in _WINDOWS:
            high = now + window
            if found := await self._lists.count_open(_between(low, high)):
                break
        else:
            return None
        while found > _FEW and high - low > _PRECISION:
            middle = low + (high - low) / 2
            if earlier := await self._lists.count_open(_between(low, middle)):
                found, high = earlier, middle
            else:
                low = middle
        if found > _FEW:
            return low
        deadlines = [_deadline(execution) async for execution in self._lists.open(_between(low, high))]
        # None is left when all of them ended meanwhile: too early does no harm.
        return min(deadlines, default=low)


def _deadline(execution: WorkflowExecutionInfo) -> datetime:
    return decode_typed_search_attributes(execution.search_attributes)[DEADLINE]


def _between(low: datetime, high: datetime) -> str:
    return f"{DEADLINE.name} > {literal(low)} AND {DEADLINE.name} <= {literal(high)}"
