"""`tarry.model-request`: one HTTP request to a model, its answer, and what the registry says of its calls."""

from __future__ import annotations

from collections.abc import Callable

from temporalio import activity

from activities.model_call import call_model
from tarry.app import App, Registry
from tarry.core.arguments import normalise_calls
from tarry.core.context import model_messages
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import MODEL_REQUEST, ModelAnswer, ModelRequestInput, ModelTurn
from tarry.core.resolve import resolve_calls
from tarry.core.text import clean_text
from tarry.entries import EntryReader
from tarry.models import ModelRequest, ModelResponse


class ModelActivities:
    """Sends the requests of every conversation this worker serves."""

    def __init__(self, app: App, reader: EntryReader) -> None:
        self._app = app
        self._registry = app.registry
        self._reader = reader

    @activity.defn(name=MODEL_REQUEST)
    async def request(self, input: ModelRequestInput) -> ModelAnswer:
        """The model's answer, or why there is none. A Stop gives the part that had streamed."""

        async def ask(on_text: Callable[[str], None]) -> ModelTurn:
            return self._turn(self._selected(input), await self._respond(input, on_text))

        return ModelAnswer(await call_model(self._app.model.name, ask))

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
