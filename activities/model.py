"""`tarry.model-request`: one HTTP request to a model, its answer, and what the registry says of its calls.

One attempt and no retry of its own: the generation retries durably (spec §6.3). What streams is
published by heartbeats, so a crash loses less than a second of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from activities.heartbeat import Heartbeat
from activities.output import progress_of
from tarry.app import App, Registry
from tarry.core.arguments import normalise_calls
from tarry.core.context import model_messages
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import (
    MODEL_REQUEST,
    WORKER_SHUTDOWN,
    ModelAnswer,
    ModelFailure,
    ModelRequestInput,
    ModelTurn,
)
from tarry.core.resolve import resolve_calls
from tarry.core.text import bound_text, clean_text
from tarry.entries import EntryReader
from tarry.models import ModelError, ModelRequest, ModelResponse
from tarry.store import StoreError

MAX_ERROR_BYTES = 4 * 1024
"""How much of an error's text is recorded."""


class ModelActivities:
    """Sends the requests of every conversation this worker serves."""

    def __init__(self, app: App, reader: EntryReader) -> None:
        self._app = app
        self._registry = app.registry
        self._reader = reader

    @activity.defn(name=MODEL_REQUEST)
    async def request(self, input: ModelRequestInput) -> ModelAnswer:
        """The model's answer, or why there is none. A Stop gives the part that had streamed."""
        streamed: list[str] = []
        async with Heartbeat(lambda: progress_of("".join(streamed))) as heartbeat:

            def on_text(piece: str) -> None:
                streamed.append(piece)
                heartbeat.touch()

            try:
                return ModelAnswer(self._turn(self._selected(input), await self._respond(input, on_text)))
            except ModelError as error:
                failure = error
            except (RPCError, StoreError) as error:
                failure = ModelError(f"the transcript is out of reach: {error}", "retryable")
            except asyncio.CancelledError:
                if activity.is_cancelled() or activity.is_worker_shutdown():
                    return ModelAnswer(self._cut_off("".join(streamed)))
                failure = ModelError("CancelledError: the model's own code cancelled the request", "permanent")
            except Exception as error:  # a model is application code and may raise or return anything
                activity.logger.exception("the model raised")
                failure = ModelError(f"{type(error).__name__}: {error}", "permanent")
            return ModelAnswer(self._failure(failure, "".join(streamed)))

    async def _respond(self, input: ModelRequestInput, on_text: Callable[[str], None]) -> ModelResponse:
        entries = await self._reader.context(
            input.conversation_id, input.generation_id, input.run_start, input.cutoff, input.context_start
        )
        request = ModelRequest(
            messages=model_messages(entries),
            instructions=self._app.instructions,
            tools=self._selected(input).specs(),
            session_id=input.conversation_id,
            idle_timeout=input.idle_timeout,
        )
        return await self._app.model.respond(request, on_text)

    def _selected(self, input: ModelRequestInput) -> Registry:
        """The extensions of the conversation: what its model is offered, and whose hooks count."""
        return self._registry.selected(input.extensions)

    def _turn(self, registry: Registry, response: ModelResponse) -> ModelTurn:
        message = _clean(response.message)
        return ModelTurn(
            message=message,
            calls=resolve_calls(message, registry.tools, registry.gated, registry.heard),
            usage=response.usage,
            model=self._app.model.name,
            after_tools=registry.after_tools,
            on_yield=registry.on_yield,
        )

    def _failure(self, error: ModelError, streamed: str) -> ModelFailure:
        return ModelFailure(
            error=error.kind,
            text=bound_text(error.text, max_bytes=MAX_ERROR_BYTES).text,
            retry_after=error.retry_after,
            partial=clean_text(error.partial or streamed),
            model=self._app.model.name,
        )

    def _cut_off(self, streamed: str) -> ModelFailure:
        """A Stop ends the request; a worker that shuts down gives it back, uncounted (spec §4.4)."""
        if activity.is_worker_shutdown():
            raise ApplicationError(
                "the worker shut down",
                progress_of(streamed),
                type=WORKER_SHUTDOWN,
                non_retryable=True,
                category=ApplicationErrorCategory.BENIGN,
            )
        return ModelFailure(error="aborted", text="stopped", partial=clean_text(streamed), model=self._app.model.name)


def _clean(message: AssistantMessage) -> AssistantMessage:
    """The message as it may enter history (spec §4.11), its call ids unique within it."""
    return message.model_copy(
        update={
            "text": clean_text(message.text),
            "reasoning": clean_text(message.reasoning),
            "calls": tuple(
                call.model_copy(update={"name": clean_text(call.name), "arguments": clean_text(call.arguments)})
                for call in normalise_calls(message.calls)
            ),
        }
    )
