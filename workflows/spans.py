"""The spans of workflows: a run from its conversation down to each wait of a call (spec §24.2).

They cost no event and change no command. Where this process sends none, all of it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from opentelemetry.trace import Span
from temporalio import workflow

from tarry.core.open_run import OpenRun
from tarry.core.protocol import RunResult, ToolOutcome
from tarry.core.run import GenerationInput
from tarry.core.task_state import TaskInput, TaskOutcome, ToolCallInput
from tarry.seeing import spans

OUTCOME, WAKE = spans.OUTCOME, spans.WAKE


@contextmanager
def conversation(run: OpenRun) -> Iterator[Span]:
    """A run as its conversation sees it: the root of its trace, or below whoever submitted its input in a trace."""
    own = workflow.info().workflow_id
    attributes: dict[str, spans.Value] = {spans.CONVERSATION_ID: own, spans.TASK_ID: own, spans.RUN: run.run}
    with spans.workflow_span("conversation", attributes, spans.following(run.trace)) as span:
        yield span


def generation(input: GenerationInput) -> AbstractContextManager[Span]:
    """A run from its start, or from where its workflow continued as new."""
    attributes = {
        **_own(input.conversation_id),
        spans.OPERATION: "invoke_agent",
        spans.RUN: input.run,
        spans.CONTINUED: input.carry is not None,
    }
    return spans.workflow_span("invoke_agent", attributes)


def end_run(span: Span, result: RunResult | None) -> None:
    """How it ended; None: it continues as new."""
    if result is None:
        span.set_attribute(spans.OUTCOME, "continued")
        return
    span.set_attributes({spans.OUTCOME: result.reason or result.status, **spans.of_usage(result.usage)})
    if result.status != "done":
        spans.failed(span, result.reason or result.status)


def call(input: ToolCallInput) -> AbstractContextManager[Span]:
    """A tool call, all its runs and waits; or one from where it continued as new."""
    attributes = {
        **_own(input.conversation_id),
        spans.OPERATION: "execute_tool",
        spans.TOOL_NAME: input.call.tool,
        spans.CALL_ID: input.call.call_id,
        spans.REPLAY: input.call.replay,
        spans.CONTINUED: input.carry is not None,
    }
    return spans.workflow_span(f"execute_tool {input.call.tool}", attributes)


def end_call(span: Span, outcome: ToolOutcome | None) -> None:
    """How it ended; None: it continues as new."""
    if outcome is None:
        span.set_attribute(spans.OUTCOME, "continued")
        return
    span.set_attributes({spans.OUTCOME: outcome.ending, **spans.of_usage(outcome.facts.spent.total.usage)})
    if outcome.is_error:
        spans.failed(span, outcome.ending)


def task(input: TaskInput) -> AbstractContextManager[Span]:
    """A durable task."""
    attributes = {
        **_own(input.conversation_id),
        spans.TOOL_NAME: input.call.tool,
        spans.REPLAY: input.call.replay,
        spans.CONTINUED: input.carry is not None,
    }
    return spans.workflow_span(f"task {input.call.tool}", attributes)


def end_task(span: Span, outcome: TaskOutcome | None) -> None:
    """How it ended; None: it continues as new."""
    span.set_attribute(spans.OUTCOME, outcome.status if outcome else "continued")
    if outcome is not None and outcome.status != "completed":
        spans.failed(span, outcome.code or outcome.status)


def wait(state: str) -> AbstractContextManager[Span]:
    """A park, or what is held; what ended it is its `tarry.wake`."""
    return spans.workflow_span("wait", {spans.TASK_ID: workflow.info().workflow_id, spans.WAITS: state})


def step(name: str) -> AbstractContextManager[Span]:
    """Something that a workflow does by several activities."""
    return spans.workflow_span(name, {spans.TASK_ID: workflow.info().workflow_id})


def _own(conversation_id: str) -> dict[str, spans.Value]:
    known: dict[str, spans.Value] = {spans.TASK_ID: workflow.info().workflow_id}
    return {**known, spans.CONVERSATION_ID: conversation_id} if conversation_id else known
