"""Commits to a conversation: several changes that become durable together, once for each key.

Pure. Notes and inputs are submissions of the inbox. What leaves the conversation, a delivery or the start of a task,
waits in the outbox until it is acknowledged (spec §1.6, §7.3).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from signals.box import Delivery
from tarry.core.documents import DocumentEdit
from tarry.core.inbox import Conflict, Full, TooLarge
from tarry.core.messages import Frozen
from tarry.core.protocol import PlainSignal, SubmitInput, digest
from tarry.core.task_state import TaskInput
from tarry.core.text import canonical_json
from tarry.core.writes import Write

COMMIT = "tarry.commit"
"""Update: a `CommitInput`; returns a `Committed`."""
SEND = "tarry.send"

MAX_KEYS = 500
"""Commits that are remembered by key, the newest."""
MAX_COMMIT_BYTES = 512 * 1024
MAX_WAITING_BYTES = 1024 * 1024
"""Of notes that wait for the end of a run, and of the outbox, together."""


class SendSignal(Frozen):
    """A delivery that leaves with the commit; its delivery id makes a repeat harmless."""

    kind: Literal["signal"] = "signal"
    task_id: str
    delivery: Delivery


class StartTask(Frozen):
    """A durable task that is started with the commit and outlives whoever asked for it."""

    kind: Literal["task"] = "task"
    task_id: str
    digest: str
    input: TaskInput


class TellWorkflow(PlainSignal):
    """A plain signal to another workflow; to one that is over it need not go."""

    kind: Literal["tell"] = "tell"


Sent = SendSignal | StartTask | TellWorkflow


class CommitInput(Frozen):
    """Everything that is to happen together, or not at all. `key` names the commit for whoever makes it."""

    key: str = Field(max_length=300)
    notes: tuple[str, ...] = ()
    inputs: tuple[SubmitInput, ...] = ()
    sends: tuple[Sent, ...] = ()
    documents: tuple[DocumentEdit, ...] = ()
    is_remembered: bool = Field(default=True, description="False: nobody will repeat its key, which was drawn for it")


class Committed(Frozen):
    """A commit was taken, now or when its key came first."""

    key: str
    is_repeat: bool = False


class SendInput(Frozen):
    """One item of an outbox."""

    item: Sent = Field(discriminator="kind")


class WaitingNote(Frozen):
    """A note that is placed when no run is open, of a conversation whose notes are no submissions yet."""

    text: str
    at: datetime


class Commits(BaseModel):
    """What a conversation keeps of its commits."""

    keys: dict[str, str] = Field(default_factory=dict, description="digest of the key to that of the content")
    notes: list[WaitingNote] = Field(default_factory=list)
    outbox: list[Sent] = Field(default_factory=list)
    waiting_bytes: int = 0

    def is_known(self, commit: CommitInput) -> bool:
        """Whether the key was taken before, with the same content.

        Raises:
            Conflict: it was, with other content.
        """
        return is_repeat(commit, self.known(commit.key))

    def known(self, key: str) -> str:
        """What stands for the content that was committed under a key; empty: nothing was."""
        return self.keys.get(digest(key), "")

    def check(self, commit: CommitInput) -> None:
        """Whether a new commit can be taken.

        Raises:
            TooLarge: it has over 512 KiB.
            Full: too much waits already.
        """
        size = len(canonical_json(_plain(commit)).encode())
        if size > MAX_COMMIT_BYTES:
            raise TooLarge(f"a commit of {size} bytes; {MAX_COMMIT_BYTES} are allowed")
        if self.waiting_bytes + size > MAX_WAITING_BYTES:
            raise Full("too much waits in this conversation for the end of a run, or to be sent")

    def take(self, commit: CommitInput, now: datetime, *, keeps_notes: bool) -> None:
        """Keep what a checked commit asks for; its inputs, and else its notes, are the inbox's."""
        if commit.is_remembered:
            self.keys[digest(commit.key)] = content_of(commit)
        while len(self.keys) > MAX_KEYS:
            del self.keys[next(iter(self.keys))]
        if keeps_notes:
            self.notes += [WaitingNote(text=text, at=now) for text in commit.notes]
        self.outbox += commit.sends
        self._weigh()

    def send(self, items: Sequence[Sent]) -> None:
        """Add to the outbox what leaves without a commit. What must be told is told, however much waits."""
        self.outbox += items
        self._weigh()

    def taken_notes(self) -> list[WaitingNote]:
        """The notes that waited, which are now the transcript's."""
        notes, self.notes = self.notes, []
        self._weigh()
        return notes

    def sent(self) -> None:
        """The oldest item of the outbox is acknowledged."""
        del self.outbox[0]
        self._weigh()

    def _weigh(self) -> None:
        waiting = [note.text for note in self.notes] + [item.model_dump_json() for item in self.outbox]
        self.waiting_bytes = sum(len(text.encode()) for text in waiting)


def submissions(commit: CommitInput, *, with_notes: bool) -> Iterator[SubmitInput]:
    """The inputs of a commit, each with a request id, and its notes as writes."""
    scope = f"commit-{digest(commit.key)}"
    for number, text in enumerate(commit.notes if with_notes else ()):
        yield SubmitInput(content=text, request_id=f"{scope}-note-{number}", write=Write(kind="note"))
    for number, submit in enumerate(commit.inputs):
        yield submit if submit.request_id else submit.model_copy(update={"request_id": f"{scope}-{number}"})


def named_inputs(commit: CommitInput) -> list[str]:
    """The request ids that are known by themselves, however long ago they came; the others go by the commit's key."""
    own = tuple(f"commit-{name}-" for name in (digest(commit.key), commit.key))
    ids = {submit.request_id: None for submit in commit.inputs if submit.request_id and not submit.is_new}
    return [request_id for request_id in ids if not request_id.startswith(own)]


def is_repeat(commit: CommitInput, known: str) -> bool:
    """Whether a commit was taken before, by what stands for the content that its key was used for.

    Raises:
        Conflict: that was other content.
    """
    if known not in ("", content_of(commit)):
        raise Conflict(f"commit key {commit.key!r} was used for other content")
    return known != ""


def content_of(commit: CommitInput) -> str:
    """What stands for the content of a commit. What edits make of documents is none of it: a repeat makes nothing."""
    plain = _plain(commit)
    del plain["key"]
    if commit.documents:
        plain["documents"] = [[edit.id, edit.content] for edit in commit.documents]
    return digest(canonical_json(plain))


def _plain(commit: CommitInput) -> dict[str, Any]:
    """As JSON data without defaults: keys outlive deploys, and a field that one adds makes no commit another one."""
    return commit.model_dump(mode="json", exclude={"is_remembered"}, exclude_defaults=True)
