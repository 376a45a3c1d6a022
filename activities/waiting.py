"""`tarry.judge` and `tarry.referee`: what a task cannot say of a delivery by itself, since it is not replayable."""

from __future__ import annotations

import asyncio
import threading

from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client

from activities.runner import ToolThread
from signals import tokens
from signals.box import Delivery
from tarry.app import Registry
from tarry.core.waiting import JUDGE, REFEREE, JudgeInput, RefereeInput, Ruling, Verdict, Verdicts

JUDGING_SECONDS = 2.0
"""How long the validators and migrations of the application may take for one value."""


class WaitingActivities:
    """Judges by the signals of `registry`."""

    def __init__(self, registry: Registry, client: Client) -> None:
        self._signals = registry.signals
        self._client = client

    @activity.defn(name=JUDGE)
    async def judge(self, input: JudgeInput) -> Verdicts:
        """A verdict for each delivery: whether its token takes it, and in which version it is (spec §3.2)."""
        # All at once: however many of them keep a validator busy for ever, the others are answered in time.
        return Verdicts(verdicts=tuple(await asyncio.gather(*map(self._verdict, input.deliveries))))

    async def _verdict(self, delivery: Delivery) -> Verdict:
        # In a thread of its own: validators are the application's code, and the worker's loop does not wait for them.
        thread = ToolThread(lambda: self._invalid(delivery), threading.Event(), "tarry-judge")
        ended = await thread.wait(JUDGING_SECONDS)
        if ended is None:
            return Verdict(invalid=f"its validator gave no answer in {JUDGING_SECONDS:g} s")
        if ended.error is not None:
            return Verdict(invalid=f"its validator failed with {type(ended.error).__name__}")
        if ended.value is not None:
            return Verdict(invalid=ended.value)
        current = self._signals[delivery.signal].version
        return Verdict(version=current if delivery.version is None else delivery.version)

    def _invalid(self, delivery: Delivery) -> str | None:
        return tokens.judge(self._signals, delivery.signal, delivery.value, delivery.version)

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
