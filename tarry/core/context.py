"""From a transcript to the messages of a request: what a strict provider accepts, whatever was recorded.

Pure, and a function of the entries alone: the same entries give the same messages to the byte, and
entries added later leave the messages of closed turns as they were, so that a provider's cache holds.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tarry.core.arguments import sendable_arguments
from tarry.core.messages import AssistantMessage, Message, ToolCallRequest, ToolMessage, UserMessage
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


def model_messages(entries: Sequence[Entry]) -> tuple[Message, ...]:
    """The messages a model is sent for `entries`; nothing when no user has spoken yet.

    Left out: notes, responses that were aborted or are empty, results without a call, second results,
    and whatever comes before the first user message. Results stand directly behind their response, in
    call order, ahead of users who spoke meanwhile; a call without a result gets an error result. Call
    ids are made unique, names and arguments put into a form that providers take.
    """
    ids = _CallIds()
    started = False
    messages: list[Message] = []
    for turn in _turns(in_context(entries)):
        if started and turn.response is not None:
            messages.extend(_exchange(turn.response, turn.results, ids))
        messages.extend(turn.inputs)
        started = started or bool(turn.inputs)
    return tuple(messages)


@dataclass
class _Turn:
    """A response and all that was recorded up to the next one."""

    response: AssistantMessage | None = None
    results: list[ToolMessage] = field(default_factory=list)
    inputs: list[UserMessage] = field(default_factory=list)


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
