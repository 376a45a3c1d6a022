"""The responses API: our messages as its request, its events as our answer.

The provider stores nothing: every request carries the whole conversation (`store` is false).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tarry.core.messages import AssistantMessage, Message, StopReason, ToolMessage, ToolSpec, Usage
from tarry.models import ModelError, ModelRequest
from tarry.models.openai_answer import Answer, OnText, Wire, read
from tarry.models.openai_errors import Complaint
from tarry.models.openai_output import output_format

RESPONSES_PATH = "/responses"


def responses_body(request: ModelRequest) -> dict[str, Any]:
    """The body of a streamed response, without the model's name."""
    body: dict[str, Any] = {
        "input": [item for message in request.messages for item in _items(message)],
        "stream": True,
        "store": False,
    }
    if request.instructions:
        body["instructions"] = request.instructions
    if request.output is not None:
        body["text"] = {"format": {"type": "json_schema", **output_format(request.output)}}
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if request.max_output is not None:
        body["max_output_tokens"] = request.max_output
    return body


def _items(message: Message) -> Iterable[dict[str, Any]]:
    if isinstance(message, ToolMessage):
        yield {"type": "function_call_output", "call_id": message.call_id, "output": message.text}
        return
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    if message.text or not calls:
        # Above a user's word, as `instructions` are; `system` is the older name that not every model takes.
        role = "developer" if message.role == "system" else message.role
        yield {"type": "message", "role": role, "content": message.text}
    for call in calls:
        yield {
            "type": "function_call",
            "call_id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
        }


def _tool(spec: ToolSpec) -> dict[str, Any]:
    # This API takes `strict` for granted, which refuses any schema with an optional field.
    return {
        "type": "function",
        "name": spec.name,
        "description": spec.description,
        "parameters": spec.parameters,
        "strict": False,
    }


class _Event(Wire):
    type: str = ""


class _Delta(Wire):
    delta: str
    output_index: int | None = None


class _Item(Wire):
    type: str = ""
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None


class _ItemEvent(Wire):
    item: _Item
    output_index: int | None = None


class _Incomplete(Wire):
    reason: str | None = None


class _CachedTokens(Wire):
    cached_tokens: int | None = None


class _Usage(Wire):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_tokens_details: _CachedTokens | None = None


class _Response(Wire):
    status: str | None = None
    error: Any = None
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None


class _End(Wire):
    response: _Response


class ResponsesAnswer(Answer):
    """A response out of the events of the responses API."""

    def __init__(self, on_text: OnText) -> None:
        super().__init__(on_text)
        self._refused = False
        self._handlers: dict[str, Callable[[object], None]] = {
            "response.output_text.delta": self._take_text,
            "response.refusal.delta": self._take_refusal,
            "response.reasoning_text.delta": self._take_reasoning,
            "response.reasoning_summary_text.delta": self._take_reasoning,
            "response.output_item.added": self._take_item,
            "response.function_call_arguments.delta": self._take_arguments,
            "response.output_item.done": self._take_whole_item,
            "response.completed": self._take_end,
            "response.incomplete": self._take_end,
            "response.failed": self._take_end,
            "error": self._take_error,
        }

    def take(self, event: object) -> None:
        """Take the next event; kinds that add nothing to an answer are passed over."""
        handler = self._handlers.get(read(_Event, event).type)
        if handler is not None:
            handler(event)

    def _take_text(self, event: object) -> None:
        self.say(read(_Delta, event).delta)

    def _take_refusal(self, event: object) -> None:
        self._refused = True
        self.say(read(_Delta, event).delta)

    def _take_reasoning(self, event: object) -> None:
        self.think(read(_Delta, event).delta)

    def _take_arguments(self, event: object) -> None:
        fragment = read(_Delta, event)
        self.calls.add(fragment.output_index, None, None, fragment.delta)

    def _take_item(self, event: object) -> None:
        added = read(_ItemEvent, event)
        if added.item.type == "function_call":
            self.calls.add(added.output_index, added.item.call_id, added.item.name, None)

    def _take_whole_item(self, event: object) -> None:
        done = read(_ItemEvent, event)
        item = done.item
        if item.type == "function_call":
            self.calls.complete(done.output_index, item.call_id, item.name, item.arguments)

    def _take_end(self, event: object) -> None:
        response = read(_End, event).response
        if response.usage is not None:
            details = response.usage.input_tokens_details
            self.usage = Usage(
                input_tokens=response.usage.input_tokens or 0,
                output_tokens=response.usage.output_tokens or 0,
                cached_tokens=(details.cached_tokens if details else None) or 0,
            )
        if response.status in ("failed", "cancelled"):
            raise self._failure(response.error)
        self.finish(self._stop_reason(response))

    def _take_error(self, event: object) -> None:
        raise self._failure(event)

    def _failure(self, body: object) -> ModelError:
        complaint = Complaint.read(body)
        return ModelError(f"the response failed: {complaint.text}", complaint.kind())

    def _stop_reason(self, response: _Response) -> StopReason:
        if response.status == "incomplete":
            reason = response.incomplete_details.reason if response.incomplete_details else None
            return "refusal" if reason == "content_filter" else "length"
        return "refusal" if self._refused else "stop"
