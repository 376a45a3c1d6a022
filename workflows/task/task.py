"""`tarry.durable-task`: a durable task of an application, driven phase by phase (spec §1)."""

from __future__ import annotations

from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.workflow import ActivityHandle

from signals.parking import Park
from tarry.core import results
from tarry.core import task as machine
from tarry.core.parked_note import parked_note
from tarry.core.protocol import DURABLE_TASK, ToolOutcome, ToolRunInput
from tarry.core.task_state import TaskInput, TaskOutcome
from tarry.core.waiting import TASK_CLEAN_UP, TASK_RUN, ParkedNote, TaskView
from tarry.seeing import metrics
from workflows import metering, options, spans
from workflows.supervise import supervise
from workflows.task.durable import Durable


@workflow.defn(name=DURABLE_TASK)
class Task(Durable):
    """Runs a task to its one outcome; a Stop runs its abort handler and gives the outcome `aborted`."""

    @workflow.init
    def __init__(self, input: TaskInput) -> None:
        super().__init__(input)
        self._input = input

    @workflow.run
    async def run(self, input: TaskInput) -> TaskOutcome:
        """Run the phases; continues as new between two of them, or while parked, when its history grows long."""
        with spans.task(input) as span:
            end = await self.drive()
            outcome = None if end is None else await self._settled_with(end)
            spans.end_task(span, outcome)
        if outcome is None:
            self.turn_over(input.model_copy(update={"carry": self.carried()}))
        metering.count(metrics.TASKS, task=input.call.tool, outcome=outcome.code or outcome.status)
        return outcome

    async def _settled_with(self, end: machine.End) -> TaskOutcome:
        await supervise(self.tell_late(end), self._stop.set)
        return self._outcome(end).model_copy(update={"spent": self._state.spent})

    def _outcome(self, end: machine.End) -> TaskOutcome:
        name = self._input.call.tool
        match end:
            case machine.Settle():
                return _settled(end.outcome)
            case machine.Abort() if self._ran_too_long:
                return _settled(results.too_long(name, end.output or "", cleanup=end.cleanup))
            case machine.Abort():
                return TaskOutcome(status="aborted", error=end.cleanup, code="aborted")
            case machine.Interrupt():
                return _settled(results.interrupted(name, end.output, cleanup=end.cleanup))
            case machine.Unavailable():
                return _settled(results.unavailable(name, self._state.checkpoint, has_parked=self._state.has_parked))

    def _start_run(self) -> ActivityHandle[RawValue]:
        config = self.routed(options.tool_run(self._input.call, self._settings))
        return workflow.start_activity(TASK_RUN, self._run_input(), result_type=RawValue, **config)

    def _start_clean_up(self) -> ActivityHandle[RawValue]:
        config = self.routed(options.clean_up(self._input.call, self._settings, self._time_left()))
        return workflow.start_activity(TASK_CLEAN_UP, self._run_input(), result_type=RawValue, **config)

    def _note(self, park: Park) -> ParkedNote:
        shown = self._input.call.shown
        excerpt = None if shown is None else {"input": shown.get("input")}
        return parked_note(park, self._input.call.tool, self._arguments, excerpt)

    def _view(self) -> TaskView:
        return self._viewed(self._input.conversation_id, self._input.call.tool, self._arguments)

    @property
    def _arguments(self) -> dict[str, Any]:
        return {"input": self._input.call.arguments.get("input")}

    def _run_input(self) -> ToolRunInput:
        return self._intent(self._input.conversation_id)


def _settled(outcome: ToolOutcome) -> TaskOutcome:
    if not outcome.is_error:
        return TaskOutcome(status="completed", result=outcome.facts.details)
    said = "; ".join(line.removeprefix("[error] ") for line in outcome.facts.diagnostics)
    return TaskOutcome(status="failed", error=said, code=outcome.code)
