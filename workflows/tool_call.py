"""`tarry.tool-call`: one tool call, its own workflow, settled with exactly one outcome.

The scheduled activity *is* the intent: arguments, replay policy and idempotency key are in history
before any of the tool's code runs (spec §4.1). What happens next is decided by `tarry.core.tool_call`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from signals.box import Box, BoxFull
from tarry.core import results
from tarry.core import tool_call as machine
from tarry.core.protocol import (
    ABORT,
    ANNOUNCE,
    DUPLICATE,
    MEMO,
    NOT_HELD,
    RECONCILE,
    RETRY,
    STALE,
    TASK_FULL,
    TOOL_CALL,
    TOOL_RUN,
    AnnounceInput,
    MemoInput,
    Reconciliation,
    ToolCallInput,
    ToolOutcome,
    ToolRunInput,
    digest,
)
from workflows import ends, options
from workflows.supervise import Holder, StopSwitch, supervise

MAX_MEMOS = 1_800
"""Temporal takes 2,000 updates in one run; the rest is for announcements and retries (spec §1.5)."""


@workflow.defn(name=TOOL_CALL)
class ToolCall:
    """Runs one call and returns its outcome; a Stop gives the outcome `aborted`."""

    @workflow.init
    def __init__(self, input: ToolCallInput) -> None:
        self._input = input
        self._state = machine.CallState()
        self._box = Box()
        self._stop = StopSwitch()
        self._holder = Holder(self._stop)

    @workflow.run
    async def run(self, input: ToolCallInput) -> ToolOutcome:
        """Run the call to its one outcome."""
        outcome = await supervise(self._body(), self._stop.set)
        elapsed = workflow.now() - workflow.info().workflow_start_time
        facts = outcome.facts.model_copy(
            update={
                "task_id": workflow.info().workflow_id,
                "code": outcome.code,
                "duration_ms": int(elapsed / timedelta(milliseconds=1)),
            }
        )
        return outcome.model_copy(update={"facts": facts})

    async def _body(self) -> ToolOutcome:
        command: machine.Command = machine.Execute()
        while True:
            match command:
                case machine.Execute():
                    event = await self._execute(command.pause)
                case machine.Reconcile():
                    event = await self._reconcile(command.output)
                case machine.Hold():
                    released = await self._holder.hold(command.why)
                    event = machine.Released() if released else machine.Aborted()
                case _:
                    return self._settled(command)
            command = machine.advance(self._state, event, self._input.call)

    async def _execute(self, pause: float) -> machine.Event:
        if pause:
            await self._stop.pause(pause, "no worker has the tool; looking again")
        if self._stop.is_set:
            return machine.Aborted()
        try:
            result = await self._stop.watch(
                workflow.start_activity(
                    TOOL_RUN,
                    self._run_input(),
                    result_type=RawValue,
                    **options.tool_run(self._input.call, self._input.settings),
                )
            )
        except ActivityError as error:
            return self._ended(error)
        outcome = ends.read(result, ToolOutcome)
        return machine.Ran(outcome or results.lost(self._input.call.tool))

    def _ended(self, error: ActivityError) -> machine.Event:
        if self._stop.is_set:
            return machine.Aborted(ends.published(error) if self._had_begun(error) else None)
        if ends.is_worker_lost(error) or ends.is_too_long(error):
            return machine.WorkerLost(ends.published(error))
        if ends.is_given_back(error):
            return machine.WorkerStopped(ends.published(error))
        return machine.Ran(results.tool_error(self._input.call.tool, error.cause or error))

    def _had_begun(self, error: ActivityError) -> bool:
        # Between two attempts at a safe tool the server tells of none that was started.
        return error.started_event_id > 0 or self._input.call.replay == "safe"

    async def _reconcile(self, output: str) -> machine.Event:
        if self._stop.is_set:
            return machine.Reconciled(None, output)
        try:
            answer = await self._stop.watch(
                workflow.start_activity(
                    RECONCILE,
                    self._run_input(),
                    result_type=RawValue,
                    **options.reconcile(self._input.call, self._input.settings),
                )
            )
        except ActivityError:
            return machine.Reconciled(None, output)
        return machine.Reconciled((ends.read(answer, Reconciliation) or Reconciliation()).outcome, output)

    def _run_input(self) -> ToolRunInput:
        task_id = workflow.info().workflow_id
        return ToolRunInput(
            conversation_id=self._input.conversation_id,
            task_id=task_id,
            call=self._input.call,
            run=self._state.run,
            idempotency_key=digest(task_id),
            heartbeat_timeout=self._input.settings.heartbeat_timeout,
            published=self._state.published or "",
            first_run_id=workflow.info().original_execution_run_id,
        )

    def _settled(self, command: machine.Command) -> ToolOutcome:
        tool = self._input.call.tool
        match command:
            case machine.Settle():
                return command.outcome
            case machine.Interrupt():
                return results.interrupted(tool, command.output)
            case machine.Abort():
                return results.aborted(tool, command.output or "", started=command.output is not None)
            case machine.Unavailable():
                return results.unavailable(tool)
            case _:
                raise AssertionError(command)

    @workflow.update(name=MEMO)
    def memo(self, input: MemoInput) -> Any:
        """Store a memo, first writer wins (spec §4.6)."""
        return self._box.memo(input.key, input.value)

    @memo.validator
    def _check_memo(self, input: MemoInput) -> None:
        if machine.is_stale(self._state, input.run, input.attempt):
            raise ApplicationError("a newer run of this call took over", type=STALE)
        if input.key in self._box.memos:
            raise ApplicationError("the key holds a value", self._box.memos[input.key], type=DUPLICATE)
        if len(self._box.memos) >= MAX_MEMOS:
            raise ApplicationError(f"a call holds at most {MAX_MEMOS} memos", type=TASK_FULL)
        try:
            self._box.check(input.key, input.value)
        except BoxFull as error:
            raise ApplicationError(str(error), type=TASK_FULL) from error

    @workflow.update(name=ANNOUNCE)
    def announce(self, input: AnnounceInput) -> None:
        """A rerun takes over: whatever an earlier one still says is refused (spec §4.6)."""
        machine.announce(self._state, input.run, input.attempt)

    @announce.validator
    def _check_announce(self, input: AnnounceInput) -> None:
        if machine.is_stale(self._state, input.run, input.attempt):
            raise ApplicationError("a newer run of this call took over", type=STALE)

    @workflow.update(name=RETRY)
    def retry(self) -> None:
        """Let a held call run again (spec §4.4)."""
        self._holder.release()

    @retry.validator
    def _check_retry(self) -> None:
        if not self._holder.why:
            raise ApplicationError("nothing is held here", type=NOT_HELD)

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Temporal signals by name, from any shell; what is not known is ignored and harms nothing."""
        if name == RETRY:
            self._holder.release()
        elif name == ABORT:
            self._stop.set()
