"""`tarry.registry`: which hooks count on a task queue; a sweep over waiting calls when that changes (spec §5.3).

Lives for ever, has no children, and does nothing while nothing changes: a worker that starts again costs its
announcement alone. What is decided is in `tarry.core.registry`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityConfig

from tarry.core.registry import (
    ANNOUNCE,
    CURRENT,
    MADE_CURRENT,
    MAX_LENGTH,
    PUBLISH,
    REGISTRY,
    SWEEP,
    MadeCurrent,
    RegistryInput,
    SweepInput,
    Swept,
)
from workflows import ends

TURNOVER_EVENTS = 500

SWEEPING: ActivityConfig = {
    "start_to_close_timeout": timedelta(minutes=30),
    "heartbeat_timeout": timedelta(seconds=30),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)),
    "summary": "tell calls that wait before their intent",
}
"""Harmless to repeat, since who was told is not found again; so repeated until it has worked."""


@workflow.defn(name=REGISTRY)
class Registry:
    """Takes announcements and publications, and sweeps after a change."""

    @workflow.init
    def __init__(self, input: RegistryInput) -> None:
        self._state = input.state.model_copy()

    @workflow.run
    async def run(self, input: RegistryInput) -> None:
        """Live for ever; continues as new when its history grows long."""
        while not self._is_long():
            if await self._is_due():
                await self._sweep()
        workflow.continue_as_new(RegistryInput(state=self._state))

    async def _is_due(self) -> bool:
        """Whether it is time to sweep, once it is, or there is another time, or the run is long."""
        at = self._state.sweep_at
        ahead = None if at is None else at - workflow.now()
        if ahead is not None and ahead <= timedelta(0):
            return True
        try:
            await workflow.wait_condition(lambda: self._state.sweep_at != at or self._is_long(), timeout=ahead)
        except TimeoutError:
            return True
        return False

    async def _sweep(self) -> None:
        """Told of another change meanwhile, it gives this sweep up."""
        fingerprint = self._state.current
        sweep = workflow.start_activity(SWEEP, SweepInput(fingerprint=fingerprint), result_type=RawValue, **SWEEPING)
        await workflow.wait_condition(lambda: sweep.done() or self._state.current != fingerprint)
        if not sweep.done():
            sweep.cancel()
        try:
            swept = ends.read(await sweep, Swept)
        except ActivityError:
            swept = None
        # A sweep that was ended by hand may have missed some.
        self._state.swept(fingerprint, workflow.now(), found=swept is None or swept.found > 0)

    def _is_long(self) -> bool:
        return workflow.info().get_current_history_length() > TURNOVER_EVENTS

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """A fingerprint, or one since when; from a shell anything may come, and does no harm."""
        made = ends.read_signal(args, MadeCurrent) if name == MADE_CURRENT else None
        fingerprint = (made.fingerprint if made else ends.read_signal(args, str)) or ""
        if not 0 < len(fingerprint) <= MAX_LENGTH:
            workflow.logger.warning("a signal that cannot be read was left out")
        elif made:
            self._state.made_current(fingerprint, made.since, workflow.now())
        elif name == PUBLISH:
            self._state.publish(fingerprint, workflow.now())
        elif name == ANNOUNCE:
            self._state.announce(fingerprint, workflow.now())

    @workflow.query(name=CURRENT)
    def current(self) -> str:
        """The fingerprint that counts."""
        return self._state.current
