"""What is seen of one run of a tool's code: its span, and that it began (spec §24.2, §24.6)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from opentelemetry.trace import Span
from temporalio import activity

from tarry.core.protocol import ToolOutcome, ToolRunInput
from tarry.core.waiting import ParkRequest, StepRequest
from tarry.seeing import metrics, spans
from tarry.seeing.content import Content


def tool_span(what: str, input: ToolRunInput, content: Content) -> AbstractContextManager[Span]:
    """One attempt at `what`; spans that the code itself makes are below it."""
    tool = input.call.tool
    known: dict[str, spans.Value] = {
        spans.TOOL_NAME: tool,
        spans.TASK_ID: input.task_id,
        spans.CONVERSATION_ID: input.conversation_id,
        spans.REPLAY: input.call.replay,
        spans.ATTEMPT: _attempt(input),
        **({spans.WAKE: input.wake.reason} if input.wake else {}),
        **content.arguments(spans.ARGUMENTS, input.call.arguments, tool),
    }
    return spans.activity_span(f"{what} {tool}", known)


def count_run(input: ToolRunInput) -> None:
    """A run begins; what a worker counted since the last look at its metrics is lost with it."""
    metrics.count(
        activity.metric_meter(),
        metrics.TOOL_RUNS,
        tool=input.call.tool,
        replay=input.call.replay,
        rerun=str(_attempt(input) > 1).lower(),
    )


def _attempt(input: ToolRunInput) -> int:
    """Of this intent."""
    return input.run - input.first_run + activity.info().attempt


def note_end(span: Span, input: ToolRunInput, end: ToolOutcome | ParkRequest | StepRequest, content: Content) -> None:
    """How the run ended."""
    if not isinstance(end, ToolOutcome):
        span.set_attribute(spans.OUTCOME, "parked" if isinstance(end, ParkRequest) else "step")
        return
    span.set_attribute(spans.OUTCOME, end.ending)
    span.set_attributes(content.text(spans.RESULT, end.text, input.call.tool))
    if end.is_error:
        spans.failed(span, end.ending)
