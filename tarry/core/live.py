"""A conversation as those who watch it see it: the transcript's newest part, and everything that goes on.

Pure. A view is a value: whoever makes two of them (`tarry.client.watch`) can say what happened in between
(`tarry.core.live_changes`), and whoever has the first one and hears that has the second (spec §7.9).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from tarry.core.glances import Retry
from tarry.core.messages import AssistantMessage, Frozen, ToolMessage
from tarry.core.protocol import SubmissionView
from tarry.core.transcript import Entry, Position
from tarry.core.views import ConversationView

MAX_ENTRIES = 100
MAX_ENTRY_BYTES = 256 * 1024
"""What of the transcript stands in a view; the newest entry always does."""
MAX_SETTLED = 20
ARGUMENTS_SHOWN = 2_000
"""Characters of a call's arguments in a view."""

Contact = Literal["up", "no_worker", "no_server"]
"""Who answered when a view was made last. Without a worker transcript and inbox may be old, without a server all is."""

CallStatus = Literal["pending", "running", "gated", "sleeping", "waiting", "held", "done"]
"""`pending`: not started yet. `done`: it has ended, and its result follows once its round is over."""


class Streamed(Frozen):
    """The newest part of a text that grows; `offset` is how many characters came before it."""

    text: str = ""
    offset: int = 0

    @property
    def end(self) -> int:
        """Characters so far."""
        return self.offset + len(self.text)

    def until(self, new: Streamed) -> tuple[int, str]:
        """Where `new` goes on, and with what: a continuation, or, where it is none, all of `new` from its offset."""
        is_within = self.offset <= new.offset <= self.end <= new.end
        if is_within and self.text[new.offset - self.offset :] == new.text[: self.end - new.offset]:
            return self.end, new.text[self.end - new.offset :]
        return new.offset, new.text

    def with_delta(self, at: int, delta: str, offset: int) -> Streamed:
        """The text after `delta`, of which what comes before `offset` is not kept any more."""
        if at != self.end:
            return Streamed(text=delta, offset=at)
        kept = (self.text + delta)[max(0, offset - self.offset) :]
        return Streamed(text=kept, offset=max(offset, self.offset))


class LiveMessage(Frozen):
    """The response that the model is giving. `id` stands for the request: one that is sent again has another."""

    id: str
    text: Streamed = Streamed()


class LiveCall(Frozen):
    """A tool call of the newest response, until its result is in the transcript."""

    task_id: str
    slot: int
    call_id: str
    tool: str
    arguments: str = Field(default="", description="as the model wrote them, the first 2,000 characters")
    label: str = Field(default="", description="what the tool says the call is about")
    status: CallStatus = "pending"
    since: datetime | None = None
    output: Streamed = Streamed()


class LiveRun(Frozen):
    """The open run. `phase`: `model`, `tools`, `hooks`, `retry`, `held`, or `starting`."""

    generation_id: str
    turn: int = 1
    phase: str = "starting"
    held: str = Field(default="", description="why it waits for a retry; empty: it does not")
    retry: Retry | None = None
    inputs: tuple[str, ...] = Field(default=(), description="request ids of what it answers")
    message: LiveMessage | None = None
    calls: tuple[LiveCall, ...] = ()


class Question(Frozen):
    """A question that a person may answer: deliver a value to `task_id`, under one of `keys`."""

    task_id: str
    path: tuple[str, ...] = Field(
        description="ids from the root conversation, over runs, calls and owned conversations, down to the task"
    )
    tool: str
    question: str
    for_whom: str = ""
    agent: str = Field(default="", description="path of the subagent in whose conversation it was asked; else empty")
    keys: tuple[str, ...] = Field(
        default=(), description="`signal/key` of at most eight keys: a long key as `#hash`; any of them answers"
    )
    since: datetime
    until: datetime | None = Field(default=None, description="the deadline; None: it waits for ever")
    digest: str = Field(description="of the tool and its arguments: an approval binds to it")
    arguments: str = Field(description="an excerpt, as JSON")


class LiveView(ConversationView):
    """The whole picture.

    `entries` are the newest of the transcript, those of the open run included, from the newest head marker's place on:
    at most 100 and 256 KiB. `settled` are the newest submissions that ended while somebody watched.
    """

    entries: tuple[Entry, ...] = ()
    run: LiveRun | None = None
    questions: tuple[Question, ...] = Field(default=(), description="of this conversation and of all below it")
    settled: tuple[SubmissionView, ...] = ()
    contact: Contact = "up"

    @property
    def entries_end(self) -> Position:
        """The place after the newest entry, of the open run too."""
        return self.entries[-1].position if self.entries else self.end


def window(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """The end of `entries` that a view holds.

    Entries that are added to a window and cut again give what all of them together give.
    """
    heads = (min(entry.head.index, entry.index) for entry in entries[-MAX_ENTRIES:] if entry.head is not None)
    first = max(heads, default=0)
    kept, size = 0, 0
    for entry in reversed(entries[-MAX_ENTRIES:]):
        size += entry.size()
        if kept and (size > MAX_ENTRY_BYTES or entry.index < first):
            break
        kept += 1
    return tuple(entries[len(entries) - kept :])


def open_requests(entries: Iterable[Entry]) -> list[tuple[int, LiveCall]]:
    """The calls of the newest response that have no result among `entries`, by slot; not yet known by task."""
    asked: AssistantMessage | None = None
    answered: list[str] = []
    for entry in entries:
        if isinstance(entry.message, AssistantMessage) and entry.message.calls:
            asked, answered = entry.message, []
        elif isinstance(entry.message, ToolMessage):
            answered.append(entry.message.call_id)
    # All results of a round come together.
    if asked is None or answered:
        return []
    return [
        (slot, LiveCall(task_id="", slot=slot, call_id=c.call_id, tool=c.name, arguments=c.arguments[:ARGUMENTS_SHOWN]))
        for slot, c in enumerate(asked.calls)
    ]
