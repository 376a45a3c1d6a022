"""A model that follows a script: every answer is a function of the request, whatever process asks.

It keeps no conversation. A killed worker's successor therefore gets the same answer, and a test can ask
two workers. The one thing counted in the process is how often a step failed or stayed silent: such a
step, unlike an answer, leaves no trace in the next request.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tarry.core.messages import AssistantMessage, Message, ToolCallRequest, Usage, UserMessage
from tarry.models import ModelError, ModelInfo, ModelRequest, ModelResponse
from tarry.models.strict import check_request
from tarry.testing.steps import Call, Fail, Reply, Step

TAIL = 6
"""The messages shown when a script has run out."""
SHOWN = 200

SUMMARY = Reply(text="What was said and done before.")
"""What a model whose script says nothing of summaries gives as one."""


class ScriptExhausted(ModelError):
    """More was asked than the script holds. Permanent: the run ends with this text, and no retry hides it."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "permanent")


@dataclass(frozen=True)
class _Slot:
    """An answer, and what happens a number of times before it is given."""

    before: tuple[Reply | Fail, ...]
    answer: Step | None


class ScriptedModel:
    """Answers a request that holds n responses with the script's answer n, counted from 0.

    `fail` and `empty` steps are no answers: they come before the next one, as often as they say, for each
    conversation and each process anew. Every request must pass a strict provider; `on_request` sees it first. `info` is
    what it tells of itself. Requests for a summary are counted apart: the first answer of `summary` is given to each.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        name: str = "scripted/1",
        *,
        on_request: Callable[[ModelRequest], None] | None = None,
        summary: Sequence[Step] = (),
        info: ModelInfo | None = None,
    ) -> None:
        self.info = info or ModelInfo()
        self._slots = _slots(steps)
        self._summary = _slots(summary or [SUMMARY])[0]
        self._name = name
        self._on_request = on_request
        self._each_input = False
        self._counted: Counter[tuple[str, int, int, int]] = Counter()

    @classmethod
    def for_each_input(
        cls,
        steps: Sequence[Step],
        name: str = "scripted/1",
        *,
        on_request: Callable[[ModelRequest], None] | None = None,
        summary: Sequence[Step] = (),
        info: ModelInfo | None = None,
    ) -> ScriptedModel:
        """A model whose script starts again at each user message: only responses since the last one are counted."""
        model = cls(steps, name, on_request=on_request, summary=summary, info=info)
        model._each_input = True
        return model

    @property
    def name(self) -> str:
        """`provider/model`, as it is recorded with usage."""
        return self._name

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        """Play the step that is due.

        Raises:
            InvalidRequest: no strict provider would take the request.
            ScriptExhausted: the script holds no step for it.
            ModelError: the step says so.
        """
        if self._on_request is not None:
            self._on_request(request)
        check_request(request)
        step = _decide(self._due(request), request)
        if isinstance(step, Fail):
            if step.partial:
                on_text(step.partial)
            raise ModelError(step.text, step.kind, retry_after=step.retry_after, partial=step.partial)
        await _stream(step, on_text)
        message = _message(step, _responses(request.messages))
        return ModelResponse(message=message, usage=_usage(request, message))

    def _due(self, request: ModelRequest) -> Step:
        inputs = [place for place, message in enumerate(request.messages) if isinstance(message, UserMessage)]
        index = _responses(request.messages[inputs[-1] if self._each_input else 0 :])
        if request.purpose == "summary" or index < len(self._slots):
            slot = self._summary if request.purpose == "summary" else self._slots[index]
            episode = len(inputs) if self._each_input else 0
            for place, step in enumerate(slot.before):
                if self._happens_again(step, (request.session_id, episode, index, place)):
                    return step
            if slot.answer is not None:
                return slot.answer
        raise ScriptExhausted(self._exhausted_text(index, request.messages))

    def _happens_again(self, step: Reply | Fail, key: tuple[str, int, int, int]) -> bool:
        self._counted[key] += 1
        return step.times is None or self._counted[key] <= step.times

    def _exhausted_text(self, index: int, messages: Sequence[Message]) -> str:
        known = sum(slot.answer is not None for slot in self._slots)
        tail = "\n".join(f"  {message.role}: {_shown(message)}" for message in messages[-TAIL:])
        return f"the script of {self._name} has {known} answers, and answer {index + 1} was asked for after:\n{tail}"


def _slots(steps: Sequence[Step]) -> tuple[_Slot, ...]:
    slots: list[_Slot] = []
    before: list[Reply | Fail] = []
    for step in steps:
        if isinstance(step, Fail) or (isinstance(step, Reply) and step.times is not None):
            before.append(step)
        else:
            slots.append(_Slot(tuple(before), step))
            before = []
    return (*slots, _Slot(tuple(before), None))


def _decide(step: Step, request: ModelRequest) -> Reply | Fail:
    chosen = step if isinstance(step, Reply | Call | Fail) else step(request)
    return Reply(calls=(chosen,)) if isinstance(chosen, Call) else chosen


async def _stream(step: Reply, on_text: Callable[[str], None]) -> None:
    size = max(1, -(-len(step.text) // step.chunks))
    for start in range(0, max(1, len(step.text)), size):
        await asyncio.sleep(step.delay)
        if step.text:
            on_text(step.text[start : start + size])


def _message(step: Reply, response: int) -> AssistantMessage:
    requests = tuple(
        ToolCallRequest(
            call_id=f"call_{response}_{place}" if call.call_id is None else call.call_id,
            name=call.tool,
            arguments=call.arguments,
        )
        for place, call in enumerate(step.calls)
    )
    stop = step.stop or ("tool_use" if requests else "stop")
    return AssistantMessage(text=step.text, reasoning=step.reasoning, calls=requests, stop=stop)


def _responses(messages: Sequence[Message]) -> int:
    return sum(isinstance(message, AssistantMessage) for message in messages)


def _usage(request: ModelRequest, message: AssistantMessage) -> Usage:
    """Four characters count as a token, so that tests can add up."""
    sent = len(request.instructions) + sum(_length(item) for item in request.messages)
    return Usage(input_tokens=-(-sent // 4), output_tokens=-(-_length(message) // 4))


def _length(message: Message) -> int:
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    return len(message.text) + sum(len(call.name) + len(call.arguments) for call in calls)


def _shown(message: Message) -> str:
    calls = message.calls if isinstance(message, AssistantMessage) else ()
    parts = [message.text, *(f"{call.name}({call.arguments})" for call in calls)]
    text = " ".join(part for part in parts if part)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
