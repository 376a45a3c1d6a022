"""`tarry.judge` and `tarry.referee`: what a task cannot say of a delivery by itself, since it is not replayable."""

from __future__ import annotations

import asyncio

from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from activities.task import judging
from tarry.app import Registry
from tarry.core.waiting import JUDGE, REFEREE, JudgeInput, RefereeInput, Ruling, Verdicts


class WaitingActivities:
    """Judges by the signals of `registry`."""

    def __init__(self, registry: Registry, client: Client) -> None:
        self._signals = registry.signals
        self._client = client

    @activity.defn(name=JUDGE)
    async def judge(self, input: JudgeInput) -> Verdicts:
        """A verdict for each delivery: whether its token takes it, and in which version it is (spec §3.2)."""
        return Verdicts(verdicts=await judging.verdicts(self._signals, input.deliveries))

    @activity.defn(name=REFEREE)
    async def referee(self, input: RefereeInput) -> Ruling:
        """Which plain signals the server stored before the deadline, by the times in the history (spec §3.7)."""
        info = activity.info()
        assert info.workflow_id is not None
        handle = self._client.get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
        wanted, count, in_time = set(input.numbers), 0, []
        async for event in handle.fetch_history_events():
            await asyncio.sleep(0)
            if event.event_type != EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                continue
            count += 1
            if count in wanted and event.event_time.ToDatetime(tzinfo=input.deadline.tzinfo) < input.deadline:
                in_time.append(count)
            if count >= max(wanted):
                break
        return Ruling(in_time=tuple(in_time))
