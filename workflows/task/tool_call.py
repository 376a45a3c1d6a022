"""`tarry.tool-call`: one tool call, its own workflow, settled with exactly one outcome.

The scheduled activity *is* the intent: arguments, replay policy and idempotency key are in history
before any of the tool's code runs (spec §4.1). What happens next is decided by `tarry.core.task`; what it
shares with durable tasks is in `workflows.task.durable`.
"""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.workflow import ActivityHandle

from signals.parking import Park
from tarry.core import results
from tarry.core import task as machine
from tarry.core.gates import Pass
from tarry.core.parked_note import parked_note
from tarry.core.protocol import (
    RECONCILE,
    TOOL_CALL,
    TOOL_RUN,
    ToolOutcome,
    ToolRunInput,
)
from tarry.core.task_state import ToolCallInput
from tarry.core.waiting import CLEAN_UP, ParkedNote, TaskView
from tarry.seeing import metrics
from workflows import metering, options, spans
from workflows.supervise import supervise
from workflows.task.acknowledging import acknowledge
from workflows.task.durable import Durable
from workflows.task.gated_judging import GatedJudging
from workflows.task.gating import Gating, refusal

KEPT_RECEIPTS = 8 * 1024
"""Bytes of receipts that go into the transcript with the result: a closed workflow is forgotten one day (spec §1.8)."""


@workflow.defn(name=TOOL_CALL)
class ToolCall(Durable):
    """Runs one call and returns its outcome; a Stop gives the outcome `aborted`."""

    @workflow.init
    def __init__(self, input: ToolCallInput) -> None:
        super().__init__(input)
        self._input = input
        # A marker in its input in place of a patch in its history: what was begun before ignored such signals.
        self._takes_signals = input.takes_signals
        self._gating = Gating(input, self._state, self._box, self._stop)
        if input.judged_by_pass:
            self._port.judging = GatedJudging(self._gating, self._state, self._box, self._stop)
        if input.carry is None and input.call.gated:
            self._state.phase = "call"

    @workflow.run
    async def run(self, input: ToolCallInput) -> ToolOutcome:
        """Run the call to its one outcome; a parked one continues as new when its history grows long."""
        with spans.call(input) as span:
            end = await self.drive()
            outcome = None if end is None else await self._settled_with(end)
            spans.end_call(span, outcome)
        if outcome is None:
            self.turn_over(input.model_copy(update={"carry": self.carried()}))
        metering.count(metrics.CALLS, tool=input.call.tool, replay=input.call.replay, outcome=outcome.ending)
        return outcome

    async def _settled_with(self, end: machine.End) -> ToolOutcome:
        outcome = await supervise(self._tell(end), self._stop.set)
        elapsed = workflow.now() - self._started
        facts = outcome.facts.model_copy(
            update={
                "task_id": workflow.info().workflow_id,
                "code": outcome.code,
                "spent": self._state.spent,
                "receipts": self._box.last_receipts(KEPT_RECEIPTS),
                "duration_ms": int(elapsed / timedelta(milliseconds=1)),
            }
        )
        return outcome.model_copy(update={"facts": facts, "acks": ()})

    async def _tell(self, end: machine.End) -> ToolOutcome:
        """Who is to hear of its result, its hooks, and whoever came to watch meanwhile."""
        if isinstance(end, machine.Settle):
            await acknowledge(end.outcome)
        outcome = await self._gating.tell(self._outcome(end), ran=self._may_have_run(end))
        await self.tell_late(end)
        return outcome

    async def _ask_gates(self, pause: float) -> machine.Event:
        if pause:
            await self._stop.pause(pause, "no worker has the tool; looking again")
        with spans.step("gate") as span:
            found = Pass(decision="not_here") if self._stop.is_set else await self._gating.ask()
            span.set_attribute(spans.OUTCOME, found.decision)
        if self._stop.is_set:
            return machine.Aborted()
        if found.decision == "run":
            return machine.Allowed(found.arguments)
        if found.park is not None:
            return self._parked(found.park)
        return machine.Ran(refusal(self._input.call.tool, found))

    def _outcome(self, end: machine.End) -> ToolOutcome:
        tool = self._input.call.tool
        match end:
            case machine.Settle():
                return end.outcome
            case machine.Interrupt():
                return results.interrupted(tool, end.output, cleanup=end.cleanup)
            case machine.Abort() if self._ran_too_long:
                return results.too_long(tool, end.output or "", cleanup=end.cleanup)
            case machine.Abort():
                started = end.output is not None
                return results.aborted(tool, end.output or "", started=started, waited=end.waited, cleanup=end.cleanup)
            case machine.Unavailable():
                return results.unavailable(tool, self._state.checkpoint, has_parked=self._state.has_parked)

    def _may_have_run(self, end: machine.End) -> bool:
        match end:
            case machine.Abort():
                return end.output is not None or self._state.has_parked
            case machine.Unavailable():
                return self._state.has_parked
            case _:
                return self._state.phase == "execute"

    def _start_run(self) -> ActivityHandle[RawValue]:
        config = self.routed(options.tool_run(self._input.call, self._input.settings))
        return workflow.start_activity(TOOL_RUN, self._run_input(), result_type=RawValue, **config)

    def _start_reconcile(self) -> ActivityHandle[RawValue]:
        config = self.routed(options.reconcile(self._input.call, self._input.settings))
        return workflow.start_activity(RECONCILE, self._run_input(), result_type=RawValue, **config)

    def _start_clean_up(self) -> ActivityHandle[RawValue]:
        config = self.routed(options.clean_up(self._input.call, self._settings, self._time_left()))
        return workflow.start_activity(CLEAN_UP, self._run_input(), result_type=RawValue, **config)

    def _note(self, park: Park) -> ParkedNote:
        asked = self._input.call
        # What a hook put in their place nobody has looked at for what may be shown.
        excerpt = {} if asked.shown is not None and self._call.arguments != asked.arguments else asked.shown
        return parked_note(park, asked.tool, self._call.arguments, excerpt)

    def _view(self) -> TaskView:
        return self._viewed(self._input.conversation_id, self._input.call.tool, self._call.arguments)

    def _run_input(self) -> ToolRunInput:
        return self._intent(self._input.conversation_id, nested=self._input.nested)
