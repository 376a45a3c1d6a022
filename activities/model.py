"""`tarry.model-request`: one HTTP request to a model, its answer, and what the registry says of its calls."""

from __future__ import annotations

from collections.abc import Callable

from temporalio import activity

from activities.model_call import call_model
from tarry.app import App, Registry
from tarry.core.arguments import normalise_calls
from tarry.core.context import model_messages
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import MODEL_REQUEST, ModelAnswer, ModelFailure, ModelRequestInput, ModelTurn
from tarry.core.resolve import resolve_calls
from tarry.core.text import clean_text
from tarry.entries import EntryReader
from tarry.models import Model, ModelRequest, ModelResponse, NoModel


class ModelActivities:
    """Sends the requests of every conversation this worker serves."""

    def __init__(self, app: App, reader: EntryReader) -> None:
        self._app = app
        self._registry = app.registry
        self._reader = reader

    @activity.defn(name=MODEL_REQUEST)
    async def request(self, input: ModelRequestInput) -> ModelAnswer:
        """The model's answer, or why there is none. A Stop gives the part that had streamed."""
        try:
            model = self._app.model_of(input.agent)
        except NoModel as error:
            return ModelAnswer(ModelFailure(error="no_model", text=str(error)))
        registry = self._registry.chosen(input.agent)

        async def ask(on_text: Callable[[str], None]) -> ModelTurn:
            return _turn(registry, model, await self._respond(input, registry, model, on_text))

        return ModelAnswer(await call_model(model.name, ask))

    async def _respond(
        self, input: ModelRequestInput, registry: Registry, model: Model, on_text: Callable[[str], None]
    ) -> ModelResponse:
        entries = await self._reader.context(
            input.conversation_id, input.generation_id, input.run_start, input.cutoff, input.context_start
        )
        agent = self._registry.resolved(input.agent)
        request = ModelRequest(
            messages=model_messages(entries),
            instructions=agent.instructions or "",
            tools=registry.specs(),
            session_id=input.conversation_id,
            idle_timeout=input.idle_timeout,
            thinking=agent.thinking or "off",
        )
        return await model.respond(request, on_text)


def _turn(registry: Registry, model: Model, response: ModelResponse) -> ModelTurn:
    message = _clean(response.message)
    return ModelTurn(
        message=message,
        calls=resolve_calls(message, registry.tools, registry.gated, registry.heard),
        usage=response.usage,
        model=model.name,
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
