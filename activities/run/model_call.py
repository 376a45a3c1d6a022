"""One question to a model from an activity: heartbeats while it streams, and every end as a value.

Shared by whatever asks a model. One attempt and no retry of its own: workflows retry durably (spec §6.3). What streams
is published by heartbeats, so a crash loses less than a second of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from opentelemetry.trace import SpanKind
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from activities.heartbeat import Heartbeat
from activities.output import progress_of
from tarry.core.protocol import GIVEN_BACK, PAUSED, WORKER_SHUTDOWN, ModelFailure
from tarry.core.text import bound_text, clean_text
from tarry.models import Model, ModelError, ModelRequest, ModelResponse, priced
from tarry.seeing import spans
from tarry.seeing.content import Content
from tarry.store import StoreError

T = TypeVar("T")

MAX_ERROR_BYTES = 4 * 1024
"""How much of an error's text is recorded."""


async def call_model(model: Model, ask: Callable[[Callable[[str], None]], Awaitable[T]]) -> T | ModelFailure:
    """What `ask` returns, or why there is nothing; a Stop gives the part that had streamed.

    `ask` is given what to call with each piece of text; the name and the prices of `model` are recorded with a failure.
    """
    streamed: list[str] = []
    async with Heartbeat(lambda: progress_of("".join(streamed))) as heartbeat:

        def on_text(piece: str) -> None:
            streamed.append(piece)
            heartbeat.touch()

        try:
            return await ask(on_text)
        except ModelError as error:
            failure = error
        except (RPCError, StoreError) as error:
            failure = ModelError(f"the transcript is out of reach: {error}", "retryable")
        except asyncio.CancelledError:
            if activity.is_cancelled() or activity.is_worker_shutdown():
                return _cut_off(model.name, "".join(streamed))
            failure = ModelError("CancelledError: the model's own code cancelled the request", "permanent")
        except Exception as error:  # a model is application code and may raise or return anything
            activity.logger.exception("the model raised")
            failure = ModelError(f"{type(error).__name__}: {error}", "permanent")
        return _failure(model, failure, "".join(streamed))


async def respond(
    model: Model, request: ModelRequest, on_text: Callable[[str], None], conversation_id: str, content: Content
) -> ModelResponse:
    """`model.respond`, as a span."""
    provider, _, name = model.name.rpartition("/")
    info = activity.info()
    known: dict[str, spans.Value] = {
        spans.OPERATION: "chat",
        spans.REQUEST_MODEL: name,
        spans.CONVERSATION_ID: conversation_id,
        spans.TASK_ID: info.workflow_id or "",
        spans.ATTEMPT: info.attempt,
        spans.PURPOSE: request.purpose,
        **({spans.PROVIDER: provider} if provider else {}),
        **(content.message(spans.INPUT, request.messages[-1]) if request.messages else {}),
    }
    with spans.activity_span(f"chat {name}", known, SpanKind.CLIENT) as span:
        try:
            response = await model.respond(request, on_text)
        except ModelError as error:
            spans.failed(span, error.kind)
            raise
        span.set_attributes(spans.of_usage(response.usage))
        span.set_attribute(spans.FINISH_REASONS, (response.message.stop,))
        span.set_attributes(content.message(spans.OUTPUT, response.message))
        return response


def _failure(model: Model, error: ModelError, streamed: str) -> ModelFailure:
    return ModelFailure(
        error=error.kind,
        text=bound_text(error.text, max_bytes=MAX_ERROR_BYTES).text,
        retry_after=error.retry_after,
        partial=clean_text(error.partial or streamed),
        model=model.name,
        usage=None if error.usage is None else priced(model, error.usage),
    )


def _cut_off(model: str, streamed: str) -> ModelFailure:
    """A Stop ends the request; it is given back by a worker that shuts down, and by one from which it was taken.

    Raises:
        ApplicationError: it was given back; the run decides what comes next (spec §4.4).
    """
    if activity.is_worker_shutdown():
        raise _given_back("the worker shut down", WORKER_SHUTDOWN, streamed)
    details = activity.cancellation_details()
    if details is not None and details.paused:
        raise _given_back("the request was paused", PAUSED, streamed)
    if details is not None and details.reset:
        raise _given_back("the request was reset", GIVEN_BACK, streamed)
    return ModelFailure(error="aborted", text="stopped", partial=clean_text(streamed), model=model)


def _given_back(why: str, kind: str, streamed: str) -> ApplicationError:
    category = ApplicationErrorCategory.BENIGN
    return ApplicationError(why, progress_of(streamed), type=kind, non_retryable=True, category=category)
