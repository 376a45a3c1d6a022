"""`tarry.model-request`: one HTTP request to a model, its answer, and what the registry says of its calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from temporalio import activity

from activities.hooks.request_hooks import RequestHooks
from activities.reports import Reports
from activities.run.model_call import call_model, respond
from activities.run.offering import Offering, OnOffer
from activities.run.prompting import prepare
from activities.task.asking import is_after_reset
from tarry.app import App, Registry
from tarry.client import Harness
from tarry.core import summaries
from tarry.core.arguments import normalise_calls
from tarry.core.compaction_view import ContextFull
from tarry.core.context import shown
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import MODEL_REQUEST, ModelAnswer, ModelFailure, ModelRequestInput, ModelTurn
from tarry.core.resolve import resolve_calls
from tarry.core.subagents.protocol import tree_of
from tarry.core.text import clean_text
from tarry.core.transcript import Entry
from tarry.entries import EntryReader
from tarry.models import Model, ModelRequest, ModelResponse, NoModel, info_of, priced
from tarry.offers import OfferAsked
from tarry.outputs import problem_of
from tarry.redaction import show_calls
from tarry.seeing.content import Content


class ModelActivities:
    """Sends the requests of every conversation this worker serves."""

    def __init__(self, app: App, reader: EntryReader, harness: Harness, content: Content | None = None) -> None:
        self._app = app
        self._registry = app.registry
        self._reader = reader
        self._harness = harness
        self._offering = Offering()
        self._content = content or Content()

    @activity.defn(name=MODEL_REQUEST)
    async def request(self, input: ModelRequestInput) -> ModelAnswer:
        """The model's answer, or why there is none. A Stop gives the part that had streamed."""
        try:
            model = self._app.model_of(input.agent)
        except NoModel as error:
            after_run = self._registry.chosen(input.agent).after_run
            return ModelAnswer(ModelFailure(error="no_model", text=str(error), after_run=bool(after_run)))
        registry = self._registry.chosen(input.agent)
        reports = Reports()

        async def ask(on_text: Callable[[str], None]) -> ModelTurn | ContextFull:
            entries = await self._entries(input)
            reports.know(entry.note for entry in entries if entry.index >= input.run_start.index)
            offer = await self._offer(registry, input, entries, reports)
            agent = self._registry.resolved(input.agent)
            prepared = await prepare(model, offer, agent, input, entries, reports)
            size = summaries.text_tokens(prepared.request.instructions)
            if (full := summaries.must_wait(entries, input.sizes, info_of(model), size)) is not None:
                return full
            hooks = RequestHooks(registry, input, reports)
            response = await _respond(
                lambda request: respond(model, request, on_text, input.conversation_id, self._content),
                prepared.request,
                hooks,
            )
            beside = {
                "prompt": prepared.patches,
                "problems": reports.new,
                "invalid": _invalid(input, response.message),
                "is_large": summaries.is_due(entries, input.sizes, info_of(model), response.usage),
            }
            return _turn(offer.registry, model, response).model_copy(update=beside)

        answer = await call_model(model, ask)
        if isinstance(answer, ModelFailure):
            answer = answer.model_copy(update={"problems": reports.new})
        if not isinstance(answer, ContextFull):
            timeline = activity.info().workflow_run_id if is_after_reset(input) else ""
            answer = answer.model_copy(update={"after_run": bool(registry.after_run), "timeline": timeline})
        return ModelAnswer(answer)

    async def _entries(self, input: ModelRequestInput) -> list[Entry]:
        return await self._reader.context(
            input.conversation_id, input.generation_id, input.run_start, input.cutoff, input.context_start
        )

    async def _offer(
        self, registry: Registry, input: ModelRequestInput, entries: list[Entry], reports: Reports
    ) -> OnOffer:
        asked = OfferAsked(
            conversation_id=input.conversation_id,
            generation_id=input.generation_id,
            tree_id=input.tree or tree_of(input.generation_id),
            agent=self._registry.resolved(input.agent),
            harness=self._harness,
        )
        return await self._offering.ask(registry, asked, shown(entries), reports)


async def _respond(
    ask: Callable[[ModelRequest], Awaitable[ModelResponse]], request: ModelRequest, hooks: RequestHooks
) -> ModelResponse:
    """The response, cleaned. The hooks hear of it, or of its failure."""
    request = await hooks.before(request)
    try:
        response = await ask(request)
        response = response.model_copy(update={"message": _clean(response.message)})
    except Exception as error:  # a model is application code and may raise or return anything
        await hooks.after(error)
        raise
    await hooks.after(response)
    return response


def _turn(registry: Registry, model: Model, response: ModelResponse) -> ModelTurn:
    resolved = resolve_calls(response.message, registry.tools, registry.gated, registry.heard)
    return ModelTurn(
        message=response.message,
        calls=show_calls(registry.redact, resolved),
        usage=priced(model, response.usage),
        model=model.name,
        after_tools=registry.after_tools,
        on_yield=registry.on_yield,
    )


def _invalid(input: ModelRequestInput, message: AssistantMessage) -> str:
    """What is wrong with an answer as the output that was asked for; nothing of one that calls tools on the way."""
    if input.output is None or message.calls or message.is_empty:
        return ""
    return problem_of(input.output.json_schema, message.text)


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
