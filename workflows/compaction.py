"""Making a summary, for a conversation or a run: one pinned activity, made again durably (spec §11.4)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from tarry.core import run as machine
from tarry.core.compacting import COMPACT, NoSummary, Summary, SummaryAnswer, SummaryInput
from tarry.core.compaction_view import CompactionStatus
from tarry.core.protocol import ModelFailure, RunSettings
from tarry.core.summary_budget import GiveUp, SummaryBudget
from workflows import ends, options
from workflows.supervise import StopSwitch

Show = Callable[[CompactionStatus, int, str, datetime | None], None]
"""Told of each attempt: its status, number, the error before it, and when it is made."""


async def summarise(input: SummaryInput, settings: RunSettings, stop: StopSwitch, show: Show) -> Summary | NoSummary:
    """A summary, or why there is none; a Stop ends it."""
    budget = SummaryBudget()
    error = ""
    while not stop.is_set:
        show("running", budget.attempt, error, None)
        answer = await _ask(input, settings, stop)
        if isinstance(answer, Summary | NoSummary):
            return answer
        error = answer.failure.text if isinstance(answer, machine.Failed) else "its worker was lost"
        try:
            seconds = budget.pause(answer, settings)
        except GiveUp as end:
            return NoSummary(why="aborted" if isinstance(answer, machine.Aborted) else "failed", detail=str(end))
        if seconds:
            show("retry", budget.attempt, error, workflow.now() + timedelta(seconds=seconds))
            await stop.pause(seconds, error)
    return NoSummary(why="aborted", detail="stopped")


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
    if not isinstance(answer.root, ModelFailure):
        return answer.root
    return machine.Aborted() if answer.root.error == "aborted" else machine.Failed(answer.root)
