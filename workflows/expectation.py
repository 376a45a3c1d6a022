"""`tarry.expectation`: one match of one webhook source, and whom it is for.

As a rule nothing happens in it: the gateway reads its target from the memo and tells the task itself. Only what comes
before anybody expects it is kept here, and delivered once somebody does. Ends by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue, RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.workflow import ActivityConfig

from tarry.core import expectation as machine
from tarry.core.expectation import (
    EXPECT,
    EXPECTATION,
    FORWARD,
    KEEP,
    MATCH_TAKEN,
    TARGET_MEMO,
    TURNOVER_EVENTS,
    ExpectationInput,
    Kept,
    Target,
)
from workflows import ends

FORWARDING: ActivityConfig = {
    "start_to_close_timeout": timedelta(minutes=2),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)),
    "summary": "deliver what came early",
}
"""Harmless to repeat, since the task knows the delivery ids; so repeated until it has worked."""


@workflow.defn(name=EXPECTATION)
class Expectation:
    """Keeps what came early until there is a target, delivers it, and is over when its time has passed."""

    @workflow.init
    def __init__(self, input: ExpectationInput) -> None:
        self._state = machine.Expectation(input, workflow.now())

    @workflow.run
    async def run(self, input: ExpectationInput) -> None:
        """Live until the time is over; then there is nothing to tell."""
        while not self._state.is_over(workflow.now()):
            await self._wait()
            if (forward := self._state.due()) is not None:
                await self._forward(forward)
            elif self._is_long():
                await workflow.wait_condition(workflow.all_handlers_finished)
                workflow.continue_as_new(self._state.carried(), memo=self._memo())
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _wait(self) -> None:
        until = self._state.until
        try:
            await workflow.wait_condition(
                lambda: self._state.due() is not None or self._state.until != until or self._is_long(),
                timeout=until - workflow.now(),
            )
        except TimeoutError:
            return

    async def _forward(self, forward: machine.ForwardInput) -> None:
        # What was answered is the target's to keep; a raw result can be completed by hand with anything.
        try:
            await workflow.execute_activity(FORWARD, forward, result_type=RawValue, **FORWARDING)
        except ActivityError as error:  # somebody ended it by hand
            workflow.logger.warning("What came early was given up: %s", error.cause or error)
        self._state.forwarded(forward)

    def _is_long(self) -> bool:
        return workflow.info().get_current_history_length() > TURNOVER_EVENTS

    def _memo(self) -> dict[str, Any]:
        return {} if self._state.target is None else {TARGET_MEMO: self._state.target}

    def _expect(self, target: Target) -> None:
        if self._state.expect(target, workflow.now()):
            workflow.upsert_memo(self._memo())

    @workflow.update(name=EXPECT)
    async def expect(self, target: Target) -> None:
        """Name the target; done when what was kept has been delivered to it."""
        self._expect(target)
        await workflow.wait_condition(lambda: self._state.due() is None)

    @expect.validator
    def _check_expect(self, target: Target) -> None:
        if not self._state.accepts(target):
            raise ApplicationError("another wait has that match", type=MATCH_TAKEN)

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """A webhook to keep, or the target; from a shell anything may come, and does no harm."""
        if name == KEEP and len(args) == 1 and (kept := ends.read(args[0], Kept)) is not None:
            self._state.keep(kept)
        elif name == EXPECT and len(args) == 1 and (target := ends.read(args[0], Target)) is not None:
            self._expect(target)
        else:
            workflow.logger.warning("a signal that nobody knows or can read was left out")
