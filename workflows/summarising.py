"""Making a summary, for a conversation or a run: one pinned activity, made again durably (spec §11.4)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Literal

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, FailureError

from tarry.core import run as machine
from tarry.core.compaction_protocol import COMPACT, LARGE, LargeInput, NoSummary, Summary, SummaryAnswer, SummaryInput
from tarry.core.compaction_view import CompactionReason, CompactionStatus, CompactionView
from tarry.core.ledger import Ledger
from tarry.core.protocol import ModelFailure, RunSettings
from tarry.core.summaries import framed
from tarry.core.summary_budget import GiveUp, SummaryBudget
from tarry.core.transcript import Draft, Position, Transcript, compaction_draft
from tarry.seeing import metrics
from workflows import ends, metering, options, spans
from workflows.supervise import StopSwitch

Show = Callable[[CompactionStatus, int, str, datetime | None], None]
"""Told of each attempt: its status, number, the error before it, and when it is made."""


async def summarise(input: SummaryInput, settings: RunSettings, stop: StopSwitch, show: Show) -> Summary | NoSummary:
    """A summary, or why there is none; a Stop ends it."""
    with spans.step("compact") as span:
        answer = await _summarised(input, settings, stop, show)
        outcome = "ok" if isinstance(answer, Summary) else answer.why
        span.set_attribute(spans.OUTCOME, outcome)
    metering.count(metrics.COMPACTIONS, outcome=outcome)
    return answer


async def _summarised(input: SummaryInput, settings: RunSettings, stop: StopSwitch, show: Show) -> Summary | NoSummary:
    budget = SummaryBudget()
    spent, error = Ledger(), ""
    while not stop.is_set:
        show("running", budget.attempt, error, None)
        answer = await _ask(input, settings, stop)
        metering.summary_request(answer)
        if isinstance(answer, Summary | NoSummary):
            if answer.model:
                spent = spent.with_request(answer.model, answer.usage)
            return answer.model_copy(update={"usage": spent.total.usage, "spent": spent})
        failure = answer.failure if isinstance(answer, machine.Failed) else None
        if failure is not None and failure.model:
            spent = spent.with_request(failure.model, failure.usage)
        error = "its worker was lost" if failure is None else failure.text
        try:
            seconds = budget.pause(answer, settings)
        except GiveUp as end:
            is_aborted = isinstance(answer, machine.Aborted) or (failure is not None and failure.error == "aborted")
            why: Literal["aborted", "failed"] = "aborted" if is_aborted else "failed"
            return NoSummary(why=why, detail=str(end), usage=spent.total.usage, spent=spent)
        if seconds:
            metering.count(metrics.MODEL_RETRIES, model=failure.model if failure else "")
            show("retry", budget.attempt, error, workflow.now() + timedelta(seconds=seconds))
            await stop.pause(seconds, error)
    return NoSummary(why="aborted", detail="stopped", usage=spent.total.usage, spent=spent)


class RunCompaction:
    """The compactions of a run, each of which its next request waits for."""

    def __init__(self, transcript: Transcript, stop: StopSwitch) -> None:
        self.view: CompactionView | None = None
        self._transcript = transcript
        self._stop = stop

    async def run(self, input: machine.GenerationInput, error: str) -> Summary | NoSummary:
        """A summary of the context as it stands, or why there is none; `error` is of the provider that refused it."""
        reason: CompactionReason = "overflow" if error else "threshold"
        view = CompactionView(request_id=workflow.info().workflow_id, reason=reason)

        def show(status: CompactionStatus, attempt: int, error: str, retry_at: datetime | None) -> None:
            changes = {"status": status, "attempt": attempt, "detail": error, "retry_at": retry_at}
            self.view = view.model_copy(update=changes)

        answer = await summarise(self._pinned(input, reason), input.settings, self._stop, show)
        self.view = None
        return answer

    def _pinned(self, input: machine.GenerationInput, reason: CompactionReason) -> SummaryInput:
        settings = input.settings
        return SummaryInput(
            conversation_id=input.conversation_id,
            generation_id=workflow.info().workflow_id,
            run_start=input.start,
            cutoff=self._transcript.end,
            context_start=self._transcript.context_start or input.context_start,
            reason=reason,
            sizes=settings.sizes,
            agent=settings.chosen.without_instructions(),
            idle_timeout=settings.model_idle_timeout,
        )

    def draft(self, summary: Summary, now: datetime, run: int) -> Draft:
        """The entry of a summary."""
        draft = compaction_draft(framed(summary.text), now, run, summary.head)
        return draft.model_copy(update={"usage": summary.usage, "model": summary.model})


async def tell_large(conversation_id: str, cutoff: Position) -> None:
    """Tell a conversation that the context of its open run has grown large."""
    large = LargeInput(generation_id=workflow.info().workflow_id, cutoff=cutoff)
    with contextlib.suppress(FailureError):
        await workflow.get_external_workflow_handle(conversation_id).signal(LARGE, large)


async def _ask(input: SummaryInput, settings: RunSettings, stop: StopSwitch) -> Summary | NoSummary | machine.Event:
    try:
        result = await stop.watch(
            workflow.start_activity(COMPACT, input, result_type=RawValue, **options.model_request(settings))
        )
    except ActivityError as error:
        return ends.of_model_call(error, stopped=stop.is_set)
    answer = ends.read(result, SummaryAnswer)
    if answer is None:
        return machine.Failed(ModelFailure(error="retryable", text="the answer was not readable"))
    return machine.Failed(answer.root) if isinstance(answer.root, ModelFailure) else answer.root
