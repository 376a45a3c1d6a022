"""From a transcript to what a request says: what a strict provider accepts, whatever was recorded.

Pure, and a function of the entries alone: the same entries give the same messages to the byte, and
entries added later leave the messages of closed turns as they were, so that a provider's cache holds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tarry.core.arguments import sendable_arguments
from tarry.core.messages import AssistantMessage, Message, SystemMessage, ToolCallRequest, ToolMessage, UserMessage
from tarry.core.prompt import Prompt, PromptPatch, baseline, changes, told
from tarry.core.results import missing_result_text
from tarry.core.transcript import Entry

EMPTY_INPUT = "(an empty message)"
"""Stands for a blank input, which providers refuse."""

_ILLEGAL_IN_NAME = re.compile("[^a-zA-Z0-9_-]")
MAX_NAME = 64


def in_context(entries: Sequence[Entry]) -> Sequence[Entry]:
    """The entries that count: the newest head marker, then what it kept; without one, all.

    Older markers drop out. Entries from before the place that a marker names need not be given at all.
    """
    marker = next((entry for entry in reversed(entries) if entry.head is not None), None)
    if marker is None or marker.head is None:
        return entries
    return [marker, *(entry for entry in entries if entry.head is None and entry.index >= marker.head.index)]


def plan(entries: Sequence[Entry], wanted: Prompt) -> tuple[PromptPatch, ...]:
    """What must be appended to `entries` so that the model knows of `wanted` and of nothing else (spec §13.2).

    All of it when nothing was said yet, or nothing since the newest head marker; else the least that makes the change.
    """
    context = in_context(entries)
    patches = _patches(context)
    # A marker stands first and is younger than what it kept.
    since = context[0].index if context and context[0].head is not None else -1
    if not any(entry.prompt is not None and entry.index > since for entry in context):
        return (baseline(wanted),) if patches or not wanted.is_empty else ()
    return changes(Prompt.replayed(patches), wanted)


def shown(entries: Sequence[Entry]) -> Prompt:
    """The sections and tools that the model was told of, as far as they are still context."""
    return Prompt.replayed(_patches(in_context(entries)))


@dataclass(frozen=True)
class Context:
    """What a request says: `instructions` at its front, then the messages."""

    instructions: str
    messages: tuple[Message, ...]


def model_messages(entries: Sequence[Entry]) -> tuple[Message, ...]:
    """The messages of `request_context`."""
    return request_context(entries).messages


def request_context(entries: Sequence[Entry]) -> Context:
    """What a model is sent for `entries`; no message when no user has spoken yet.

    Left out: notes, responses that were aborted or are empty, results without a call, second results,
    and whatever comes before the first user message. Results stand directly behind their response, in
    call order, ahead of users who spoke meanwhile; a call without a result gets an error result. Call
    ids are made unique, names and arguments put into a form that providers take. A baseline of the prompt,
    and changes that no response came before, are the instructions; later changes stand where they came.
    """
    ids = _CallIds()
    started = responded = False
    messages: list[Message] = []
    prompt, front = Prompt(), ""
    for turn in _turns(_counting(in_context(entries))):
        if started and turn.response is not None:
            messages.extend(_exchange(turn.response, turn.results, ids))
            responded = True
        for said in turn.inputs:
            if isinstance(said, UserMessage):
                messages.append(said)
                started = True
            elif said.baseline or not responded:
                prompt.apply(said)
                front = prompt.text()
            else:
                messages.append(SystemMessage(text=told(prompt, said)))
                prompt.apply(said)
    return Context(front, tuple(message for message in messages if message.role != "system" or message.text))


def _counting(context: Sequence[Entry]) -> Sequence[Entry]:
    """Without what was said of the prompt before its newest baseline."""
    first = max((entry.index for entry in context if entry.prompt is not None and entry.prompt.baseline), default=-1)
    return [entry for entry in context if entry.prompt is None or entry.index >= first]


def _patches(context: Sequence[Entry]) -> list[PromptPatch]:
    return [entry.prompt for entry in _counting(context) if entry.prompt is not None]


@dataclass
class _Turn:
    """A response and all that was recorded up to the next one."""

    response: AssistantMessage | None = None
    results: list[ToolMessage] = field(default_factory=list)
    inputs: list[UserMessage | PromptPatch] = field(default_factory=list)


class _CallIds:
    """Hands out ids that differ over a whole request. What comes later never changes an earlier one."""

    def __init__(self) -> None:
        self._taken: set[str] = set()
        self._count: defaultdict[str, int] = defaultdict(lambda: 1)

    def claim(self, call_id: str) -> str:
        wanted = call_id if call_id.strip() else "call"
        claimed = wanted
        while claimed in self._taken:
            self._count[wanted] += 1
            claimed = f"{wanted}_{self._count[wanted]}"
        self._taken.add(claimed)
        return claimed


def _turns(entries: Sequence[Entry]) -> Iterator[_Turn]:
    turn = _Turn()
    for entry in entries:
        if entry.prompt is not None:
            turn.inputs.append(entry.prompt)
        match entry.message if entry.kind != "note" else None:
            case AssistantMessage() as response if response.stop != "aborted" and not response.is_empty:
                yield turn
                turn = _Turn(response)
            case ToolMessage() as result:
                turn.results.append(result)
            case UserMessage() as said:
                turn.inputs.append(said if said.text.strip() else UserMessage(text=EMPTY_INPUT))
            case _:
                pass
    yield turn


def _exchange(response: AssistantMessage, results: list[ToolMessage], ids: _CallIds) -> Iterator[Message]:
    """The response and one result for each of its calls."""
    waiting: defaultdict[str, list[ToolMessage]] = defaultdict(list)
    for result in results:
        waiting[result.call_id].append(result)
    calls: list[ToolCallRequest] = []
    answers: list[ToolMessage] = []
    for call in response.calls:
        sent = _sendable(call, ids.claim(call.call_id))
        given = waiting[call.call_id]
        calls.append(sent)
        answers.append(_answer(sent, given.pop(0) if given else None))
    text = response.text if response.text.strip() else ""
    yield response.model_copy(update={"text": text, "calls": tuple(calls), "reasoning": ""})
    yield from answers


def _sendable(call: ToolCallRequest, call_id: str) -> ToolCallRequest:
    name = _ILLEGAL_IN_NAME.sub("_", call.name)[:MAX_NAME] or "unnamed"
    return ToolCallRequest(call_id=call_id, name=name, arguments=sendable_arguments(call.arguments))


def _answer(call: ToolCallRequest, result: ToolMessage | None) -> ToolMessage:
    if result is None:
        return ToolMessage(call_id=call.call_id, name=call.name, text=missing_result_text(call.name), is_error=True)
    return result.model_copy(update={"call_id": call.call_id, "name": call.name})
