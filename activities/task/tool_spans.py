"""The span of one run of a tool's code (spec §24.2)."""

from __future__ import annotations

from contextlib import AbstractContextManager

from opentelemetry.trace import Span
from temporalio import activity

from tarry.core.protocol import ToolOutcome, ToolRunInput
from tarry.core.waiting import ParkRequest, StepRequest
from tarry.seeing import spans
from tarry.seeing.content import Content


def tool_span(what: str, input: ToolRunInput, content: Content) -> AbstractContextManager[Span]:
    """One attempt at `what`; spans that the code itself makes are below it."""
    tool = input.call.tool
    known: dict[str, spans.Value] = {
        spans.TOOL_NAME: tool,
        spans.TASK_ID: input.task_id,
        spans.CONVERSATION_ID: input.conversation_id,
        spans.REPLAY: input.call.replay,
        spans.ATTEMPT: input.run - input.first_run + activity.info().attempt,
        **({spans.WAKE: input.wake.reason} if input.wake else {}),
        **content.arguments(spans.ARGUMENTS, input.call.arguments, tool),
    }
    return spans.activity_span(f"{what} {tool}", known)


def note_end(span: Span, input: ToolRunInput, end: ToolOutcome | ParkRequest | StepRequest, content: Content) -> None:
    """How the run ended."""
    if not isinstance(end, ToolOutcome):
        span.set_attribute(spans.OUTCOME, "parked" if isinstance(end, ParkRequest) else "step")
        return
    code = end.code or ("tool_error" if end.is_error else "ok")
    span.set_attribute(spans.OUTCOME, code)
    span.set_attributes(content.text(spans.RESULT, end.text, input.call.tool))
    if end.is_error:
        spans.failed(span, code)
