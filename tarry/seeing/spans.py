"""Spans: what they are called, and how workflows and activities make them (spec §24.1 to §24.4).

A run is one trace. Attributes are OpenTelemetry's for generative AI where it has some, else ours under `tarry.`; they
hold ids, names, numbers and outcomes. What was said or passed stands in none, unless a switch says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from types import MappingProxyType

from opentelemetry import trace
from opentelemetry.context import Context, attach, detach
from opentelemetry.trace import Span, SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tarry.core.messages import Usage

Value = str | int | float | bool
Attributes = Mapping[str, Value]

OPERATION = "gen_ai.operation.name"
CONVERSATION_ID = "gen_ai.conversation.id"
TOOL_NAME = "gen_ai.tool.name"
CALL_ID = "gen_ai.tool.call.id"
INPUT_TOKENS = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS = "gen_ai.usage.output_tokens"
CACHED_TOKENS = "gen_ai.usage.cache_read.input_tokens"
PROVIDER = "gen_ai.provider.name"
REQUEST_MODEL = "gen_ai.request.model"
FINISH_REASONS = "gen_ai.response.finish_reasons"
ERROR = "error.type"
ARGUMENTS = "gen_ai.tool.call.arguments"
RESULT = "gen_ai.tool.call.result"
INPUT = "gen_ai.input.messages"
OUTPUT = "gen_ai.output.messages"

TASK_ID = "tarry.task_id"
"""The id of the workflow, as every `tarry` and `temporal` command takes it."""
RUN = "tarry.run"
TURN = "tarry.turn"
ATTEMPT = "tarry.attempt"
REPLAY = "tarry.replay"
OUTCOME = "tarry.outcome"
WAKE = "tarry.wake"
WAITS = "tarry.waits"
PURPOSE = "tarry.purpose"
CONTINUED = "tarry.continued"
"""Whether it goes on where a span of the same id ended: a long workflow continues as new."""

_KNOWN: ContextVar[Attributes] = ContextVar("known", default=MappingProxyType({}))
_TRACER = "tarry"
_PROPAGATOR = TraceContextTextMapPropagator()
_FIELD = "traceparent"


@contextmanager
def workflow_span(name: str, attributes: Attributes, parent: Context | None = None) -> Iterator[Span]:
    """A span of workflow code, the current one within. It is sent once, when its end is first reached.

    One that an exception leaves is not sent: that is a workflow task that fails and is tried again, or a workflow that
    leaves the cache; ends of ours are results.
    """
    span = trace.get_tracer(_TRACER).start_span(name, context=parent, attributes=attributes)
    with _within(span, attributes):
        yield span
    span.end()


@contextmanager
def _within(span: Span, attributes: Attributes) -> Iterator[None]:
    """The span is the current one within, and its attributes are known.

    What was before is not put back where a workflow that left the cache is collected: that happens in whatever context
    is there, and a complaint of it in the middle of anything, even of a parser that does not bear it.
    """
    before, token = _KNOWN.get(), attach(trace.set_span_in_context(span))
    _KNOWN.set({**before, **attributes})
    try:
        yield
    except GeneratorExit:
        raise
    except BaseException:
        _put_back(before, token)
        raise
    _put_back(before, token)


def _put_back(before: Attributes, token: Token[Context]) -> None:
    _KNOWN.set(before)
    detach(token)


@contextmanager
def activity_span(name: str, attributes: Attributes, kind: SpanKind = SpanKind.INTERNAL) -> Iterator[Span]:
    """A span of one attempt at something, the current one within. Of an exception that leaves it its type is told."""
    span = trace.get_tracer(_TRACER).start_span(name, attributes=attributes, kind=kind)
    try:
        with _within(span, attributes):
            yield span
    except BaseException as error:
        failed(span, getattr(error, "type", None) or type(error).__name__)
        raise
    finally:
        span.end()


def known() -> Attributes:
    """The attributes that the spans around this code began with, the inner ones before; also where none is sent."""
    return _KNOWN.get()


def of_usage(usage: Usage) -> Attributes:
    """What something took; nothing where nothing is known."""
    if usage == Usage():
        return {}
    return {
        INPUT_TOKENS: usage.input_tokens,
        OUTPUT_TOKENS: usage.output_tokens,
        CACHED_TOKENS: usage.cached_tokens,
    }


def failed(span: Span, kind: str) -> None:
    """Mark a span as failed, by a word that is the same for all failures of a kind."""
    span.set_attribute(ERROR, kind)
    span.set_status(StatusCode.ERROR)


def traceparent() -> str:
    """The current span as a text that can be kept; empty: there is none."""
    carrier: dict[str, str] = {}
    _PROPAGATOR.inject(carrier)
    return carrier.get(_FIELD, "")


def following(traceparent: str) -> Context:
    """The context of a span that `traceparent` told of; of an empty or unreadable text, that of a new trace."""
    return _PROPAGATOR.extract({_FIELD: traceparent}, Context())


@contextmanager
def within(traceparent: str) -> Iterator[None]:
    """What is begun within is part of that trace; of an empty text, of the current one."""
    if not traceparent:
        yield
        return
    token = attach(following(traceparent))
    try:
        yield
    finally:
        detach(token)
