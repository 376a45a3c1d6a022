"""The chat completions API: our messages as its request, its chunks as our answer.

Servers that only resemble OpenAI's are met half way: what they leave out is optional here.
"""

from __future__ import annotations

from typing import Any

from tarry.core.messages import AssistantMessage, Message, StopReason, ToolMessage, ToolSpec, Usage
from tarry.models import ModelError, ModelRequest
from tarry.models.openai_answer import Answer, Wire, read
from tarry.models.openai_output import output_format

CHAT_PATH = "/chat/completions"

_STOPS: dict[str, StopReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "refusal",
}
_BROKEN_OFF = {"error", "abort", "insufficient_system_resource"}


def chat_body(request: ModelRequest) -> dict[str, Any]:
    """The body of a streamed chat completion, without the model's name.

    Ids, names and arguments of calls go as they come: the context has put them into a form that a
    strict provider takes (spec §6.4). That a result is an error, its text says.
    """
    system = [{"role": "system", "content": request.instructions}] if request.instructions else []
    body: dict[str, Any] = {
        "messages": system + [_message(message) for message in request.messages],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.tools:
        body["tools"] = [_tool(spec) for spec in request.tools]
    if request.output is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": output_format(request.output)}
    if request.max_output is not None:
        body["max_completion_tokens"] = request.max_output
    return body


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, AssistantMessage):
        return _assistant(message)
    if isinstance(message, ToolMessage):
        return {"role": "tool", "tool_call_id": message.call_id, "content": message.text}
    return {"role": message.role, "content": message.text}


def _assistant(message: AssistantMessage) -> dict[str, Any]:
    if not message.calls:
        return {"role": "assistant", "content": message.text}
    calls = [
        {
            "id": call.call_id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for call in message.calls
    ]
    return {"role": "assistant", "content": message.text or None, "tool_calls": calls}


def _tool(spec: ToolSpec) -> dict[str, Any]:
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


class _Part(Wire):
    text: str = ""
    thinking: list[_Part] | None = None


class _Function(Wire):
    name: str | None = None
    arguments: Any = None


class _Call(Wire):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None


class _Delta(Wire):
    content: str | list[_Part] | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(Wire):
    index: int = 0
    delta: _Delta | None = None
    finish_reason: str | None = None


class _CachedTokens(Wire):
    cached_tokens: int | None = None


class _Usage(Wire):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _CachedTokens | None = None


class _Chunk(Wire):
    choices: list[_Choice] | None = None
    usage: _Usage | None = None


class ChatAnswer(Answer):
    """A response out of chat completion chunks."""

    _refused = False

    def take(self, event: object) -> None:
        """Take the next chunk. Only the first choice is read; none is ever asked for beside it."""
        chunk = read(_Chunk, event)
        for choice in chunk.choices or []:
            if choice.index == 0:
                self._take_choice(choice)
        if chunk.usage is not None:
            details = chunk.usage.prompt_tokens_details
            self.usage = Usage(
                input_tokens=chunk.usage.prompt_tokens or 0,
                output_tokens=chunk.usage.completion_tokens or 0,
                cached_tokens=(details.cached_tokens if details else None) or 0,
            )

    def _take_choice(self, choice: _Choice) -> None:
        if choice.delta is not None:
            self._take_delta(choice.delta)
        reason = choice.finish_reason
        if not reason:
            return
        if reason in _BROKEN_OFF:
            raise ModelError(f"the provider broke the answer off: {reason}", "retryable")
        self.finish(_STOPS.get(reason, "refusal" if self._refused else "stop"))

    def _take_delta(self, delta: _Delta) -> None:
        self.think(delta.reasoning_content or delta.reasoning or "")
        if isinstance(delta.content, str):
            self.say(delta.content)
        for part in delta.content if isinstance(delta.content, list) else []:
            self.say(part.text)
            self.think("".join(thought.text for thought in part.thinking or []))
        if delta.refusal:
            self._refused = True
            self.say(delta.refusal)
        for call in delta.tool_calls or []:
            self._take_call(call)

    def _take_call(self, call: _Call) -> None:
        function = call.function or _Function()
        self.calls.add(call.index, call.id, function.name, function.arguments)
