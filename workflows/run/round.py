"""One round of tool calls: each call its own child workflow, every call exactly one result, in call order.

A child that an earlier timeline started (a reset) is adopted when its arguments are equal, so that a
reset repeats no effect (spec §1.7).
"""

from __future__ import annotations

import asyncio

from temporalio import workflow
from temporalio.exceptions import (
    CancelledError,
    ChildWorkflowError,
    TerminatedError,
    WorkflowAlreadyStartedError,
)

from tarry.core import results
from tarry.core.messages import ToolMessage
from tarry.core.protocol import TOOL_CALL, ResolvedCall, ToolOutcome
from tarry.core.run import GenerationInput
from tarry.core.task_state import ToolCallInput
from tarry.core.transcript import Draft, result_draft
from workflows import options
from workflows.adopting import adopt, result_of
from workflows.agents.permits import Permit
from workflows.run.mailing import Mailbox
from workflows.run.timelines import fingerprint
from workflows.supervise import StopSwitch


class Round:
    """The calls of one response."""

    def __init__(
        self,
        run: GenerationInput,
        turn: int,
        calls: tuple[ResolvedCall, ...],
        stop: StopSwitch,
        mailbox: Mailbox,
        permit: Permit,
    ) -> None:
        self._input = run
        self._turn = turn
        self._calls = calls
        self._stop = stop
        self._mailbox = mailbox
        self._permit = permit
        self.handoff: str | None = None

    async def results(self, run: int) -> list[Draft]:
        """Run the calls, in parallel unless one of them is sequential; their results in call order.

        The last `handoff` of them, in that order, stays.
        """
        slots = list(enumerate(self._calls))
        if any(call.sequential for call in self._calls):
            outcomes = [await self._outcome(slot, call) for slot, call in slots]
        else:
            outcomes = list(await asyncio.gather(*(self._outcome(slot, call) for slot, call in slots)))
        now = workflow.now()
        handoffs = [outcome.handoff for outcome in outcomes if outcome.handoff is not None]
        self.handoff = handoffs[-1] if handoffs else None
        return [
            result_draft(
                ToolMessage(call_id=call.call_id, name=call.tool, text=outcome.text, is_error=outcome.is_error),
                outcome.facts,
                now,
                run,
            )
            for call, outcome in zip(self._calls, outcomes, strict=True)
        ]

    async def _outcome(self, slot: int, call: ResolvedCall) -> ToolOutcome:
        if call.error is not None:
            return results.refusal(call.error)
        await self._permit.regain()  # one behind another, which may have ended at rest
        if self._stop.is_set:
            return results.aborted(call.tool, started=False)
        task_id = f"{workflow.info().workflow_id}/t{self._turn}.{slot}"
        with self._permit.open(task_id):
            try:
                return await self._run(task_id, call)
            except ChildWorkflowError as error:
                return _ended_from_outside(call.tool, error)

    async def _run(self, task_id: str, call: ResolvedCall) -> ToolOutcome:
        """Start the call, or adopt the one that has its id; after a mismatch under the next id."""
        arguments = fingerprint(call)
        suffix = ""
        for number in range(2, 100):
            try:
                return await self._start(task_id + suffix, arguments, call)
            except WorkflowAlreadyStartedError:
                adopted = await adopt(task_id + suffix, arguments, self._input.settings, self._stop)
            if adopted.matches:
                # One that left no result is not run again: its effect may have happened.
                return result_of(adopted, ToolOutcome) or results.lost(call.tool)
            suffix = f"~{number}"
        return results.lost(call.tool)

    async def _start(self, task_id: str, arguments: str, call: ResolvedCall) -> ToolOutcome:
        child = await workflow.start_child_workflow(
            TOOL_CALL,
            ToolCallInput(
                conversation_id=self._input.conversation_id,
                generation_id=workflow.info().workflow_id,
                call=call,
                settings=self._input.settings.for_calls(),
                takes_signals=True,
                judged_by_pass=True,
                tree=self._input.tree,
                permit_of=self._permit.of,
            ),
            result_type=ToolOutcome,
            **options.child(task_id, self._input.conversation_id, arguments, options.summary(call), call),
        )
        telling = asyncio.ensure_future(self._mailbox.tell_steers(child.id)) if call.hears_steers else None
        try:
            return await self._stop.watch_child(child)
        finally:
            if telling is not None:
                telling.cancel()


def _ended_from_outside(tool: str, error: ChildWorkflowError) -> ToolOutcome:
    """A call that was terminated is a Stop by force; anything else is a fault of ours."""
    if isinstance(error.cause, TerminatedError | CancelledError):
        return results.aborted(tool)
    return results.lost(tool)
