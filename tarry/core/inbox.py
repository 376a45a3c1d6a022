"""The inbox of a conversation: who is admitted, in which order, and what became of each.

Pure. A `request_id` names its submission for ever (spec §7.1): repeats get the first one's record,
other content under it is a conflict. Settled records are packed small; the oldest move to an archive
in the store and are looked up there.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from tarry.core.messages import Frozen
from tarry.core.protocol import (
    Notify,
    RunSettings,
    SubmissionStatus,
    SubmissionView,
    SubmitInput,
    UnansweredReason,
    Withdrawal,
    digest,
)
from tarry.core.writes import STALE, Write

# All of these decide what a workflow does when it is replayed: change them only behind `workflow.patched`.
MAX_ITEMS = 1_000
MAX_BYTES = 1024 * 1024
MAX_CONTENT = 512 * 1024
RECENT = 256
ARCHIVE_BATCH = 128
DETAIL_LIMIT = 500


OWN_IDS = ("tarry.compaction:", "tarry.after-run:")
"""How the request ids of a conversation's own writes begin: nobody else may use such a one."""


class Conflict(Exception):
    """The request id is known, with other content, or is of those that are the conversation's own."""


class Busy(Exception):
    """The conversation is busy and the sender asked to be refused then."""


class Full(Exception):
    """The inbox holds as much as it may."""


class TooLarge(Exception):
    """A single input larger than any may be."""


class Record(Frozen):
    """A submission that was admitted."""

    request_id: str
    content: str = Field(description="digest of what was submitted")
    status: SubmissionStatus = "queued"
    run: int = 0
    entry: int = -1
    answer: int = -1
    reason: UnansweredReason = ""
    detail: str = ""
    notify: Notify | None = None


class Queued(Frozen):
    """An input that waits for its run, or a write that waits for the next boundary."""

    request_id: str
    content: str
    at: datetime
    settings: RunSettings
    steer: bool = False
    write: Write | None = None
    trace: str = Field(default="", description="that it was submitted in; empty: none")

    @property
    def is_input(self) -> bool:
        """Whether a run answers it; a write is placed, and that is all."""
        return self.write is None

    def size(self) -> int:
        """Bytes it counts for in the inbox."""
        return len(self.content.encode()) + _settings_size(self.settings)


class Inbox(BaseModel):
    """Queue, live records, and the packed records of what is settled."""

    queue: list[Queued] = Field(default_factory=list)
    live: dict[str, Record] = Field(default_factory=dict)
    settled: dict[str, str] = Field(default_factory=dict, description="digest of the request id to a packed record")
    archive: list[str] = Field(default_factory=list, description="references of archived records, oldest first")
    notices: list[Record] = Field(default_factory=list, description="settled, and somebody is to be told")

    def find(self, request_id: str) -> Record | None:
        """The record of a request id, unless it is archived or unknown."""
        if (live := self.live.get(request_id)) is not None:
            return live
        packed = self.settled.get(digest(request_id))
        return unpack(request_id, packed) if packed is not None else None

    def check(self, submit: SubmitInput, *, busy: bool, known: Record | None) -> Record | None:
        """What admission would say, changing nothing; the known record of a repeat, None for a new input.

        Raises:
            Conflict: the request id was used for other content, or begins as those of the conversation's own writes.
            Busy: `when_busy` is `reject` and a run is open or queued.
            Full: too many items, or too many bytes.
            TooLarge: the content alone is over 512 KiB.
        """
        if known is not None:
            if known.content != submit.digest:
                raise Conflict(f"request id {submit.request_id!r} was used for other content")
            return known
        if submit.request_id.startswith(OWN_IDS):
            raise Conflict(f"request id {submit.request_id!r} begins as those of this conversation's own: take another")
        if submit.write is None and submit.when_busy == "reject" and (busy or self.queue):
            raise Busy("the conversation is busy")
        self.check_room(1)
        own = content_size(submit.content) + _settings_size(submit.settings)
        size = sum(item.size() for item in self.queue) + own
        if size > MAX_BYTES:
            raise Full(f"the inbox would hold {size} bytes, {MAX_BYTES} are allowed; wait until some are answered")
        return None

    def check_room(self, number: int) -> None:
        """Whether so many more inputs can be queued.

        Raises:
            Full: they cannot.
        """
        if len(self.queue) + number > MAX_ITEMS:
            raise Full(f"the inbox holds at most {MAX_ITEMS} inputs; wait until some are answered")

    def admit(self, submit: SubmitInput, now: datetime) -> Record:
        """Queue a new input that `check` let through."""
        record = Record(request_id=submit.request_id, content=submit.digest, notify=submit.notify)
        self.live[submit.request_id] = record
        self.queue.append(
            Queued(
                request_id=submit.request_id,
                content=submit.content,
                at=now,
                settings=submit.settings,
                # An answer with a form of its own needs a run of its own.
                steer=submit.write is None and submit.when_busy == "steer" and submit.settings.output is None,
                write=submit.write,
                trace=submit.trace,
            )
        )
        return record

    @property
    def steers(self) -> list[Queued]:
        """The queued steers, in order."""
        return [item for item in self.queue if item.steer]

    @property
    def writes(self) -> list[Queued]:
        """The queued writes, in order."""
        return [item for item in self.queue if not item.is_input]

    @property
    def mail(self) -> int:
        """How many of the queued items an open run could place: steers and writes."""
        return len(self.steers) + len(self.writes)

    @property
    def has_steer(self) -> bool:
        """Whether one of these is a steer."""
        return bool(self.steers)

    @property
    def brings_choices(self) -> bool:
        """Whether choices come with a steer that waits."""
        return any(item.settings.agent is not None for item in self.steers)

    def take(self, items: list[Queued], run: int) -> None:
        """Take queued items out for run `run`, which places them or gives them back."""
        for item in items:
            self.queue.remove(item)
            self._update(item.request_id, status="placed", run=run)

    def give_back(self, items: list[Queued]) -> None:
        """Put what was taken and not placed back to the front."""
        for item in items:
            self._update(item.request_id, status="queued", run=0)
        self.queue[:0] = items

    def place(self, item: Queued, run: int, entry: int) -> None:
        """Take a queued input out: run `run` answers it, entry `entry` holds it."""
        self.take([item], run)
        self.stands_at(item.request_id, entry)

    def stands_at(self, request_id: str, entry: int) -> None:
        """Entry `entry` holds the input."""
        self._update(request_id, entry=entry)

    def settle(self, request_id: str, *, answer: int | None, reason: UnansweredReason = "", detail: str = "") -> Record:
        """End a submission: with the index of its answer, or with a reason."""
        status: SubmissionStatus = "done" if answer is not None else "unanswered"
        return self._end(
            request_id,
            status=status,
            answer=-1 if answer is None else answer,
            reason=reason,
            detail=detail[:DETAIL_LIMIT],
        )

    def settle_write(self, request_id: str, entry: int) -> None:
        """End a write that was taken out: entry `entry` is it, or it was `STALE`."""
        if entry == STALE:
            self._end(request_id, status="unanswered", reason="stale")
        else:
            self._end(request_id, status="done", entry=entry)

    def _end(self, request_id: str, **changes: object) -> Record:
        record = self._update(request_id, **changes)
        del self.live[request_id]
        self.settled[digest(request_id)] = pack(record)
        if record.notify is not None:
            self.notices.append(record)
        return record

    def withdraw(self, item: Queued) -> None:
        """End one queued item as aborted."""
        self.queue.remove(item)
        self.settle(item.request_id, answer=None, reason="aborted")

    def take_back(self, request_id: str) -> Withdrawal:
        """Withdraw a submission that is known here or in the archive, if it is still queued."""
        queued = next((item for item in self.queue if item.request_id == request_id), None)
        if queued is not None:
            self.withdraw(queued)
            return "withdrawn"
        return "already_placed" if request_id in self.live else "settled"

    def withdraw_queued(self, only: str = "") -> None:
        """End every queued input as aborted, or `only` the one with that id; queued writes stay (spec §7.4)."""
        ended = [item.request_id for item in self.queue if item.is_input and only in ("", item.request_id)]
        for request_id in ended:
            self.settle(request_id, answer=None, reason="aborted")
        self.queue = [item for item in self.queue if not (item.is_input and only in ("", item.request_id))]

    @property
    def wants_archiving(self) -> bool:
        """Whether enough is settled for the oldest records to move on."""
        return len(self.settled) > RECENT

    def oldest_settled(self) -> dict[str, str]:
        """The records to archive next."""
        return dict(list(self.settled.items())[:ARCHIVE_BATCH])

    def archived(self, records: dict[str, str], ref: str, *, extends: bool) -> None:
        """`records` now stand behind `ref`, which replaces the newest archive when it `extends` that one."""
        for key in records:
            self.settled.pop(key, None)
        if extends:
            self.archive.pop()
        self.archive.append(ref)

    def _update(self, request_id: str, **changes: object) -> Record:
        record = self.live[request_id].model_copy(update=changes)
        self.live[request_id] = record
        return record


def content_size(content: str) -> int:
    """Bytes that an input counts for.

    Raises:
        TooLarge: more than any input may have.
    """
    size = len(content.encode())
    if size > MAX_CONTENT:
        raise TooLarge(f"the input has {size} bytes, {MAX_CONTENT} are allowed; put it into a file and name that")
    return size


def _settings_size(settings: RunSettings) -> int:
    """Of what may be long among the settings that come along."""
    agent = "" if settings.agent is None else settings.agent.model_dump_json(exclude_defaults=True)
    return len(agent.encode()) + (0 if settings.output is None else settings.output.size())


def pack(record: Record) -> str:
    """A settled record in some fifty bytes; the request id is the key it is filed under."""
    numbers = map(str, (record.run, record.entry, record.answer))
    return ":".join([record.content, record.status, record.reason, *numbers, record.detail])


def unpack(request_id: str, packed: str) -> Record:
    """The record that `pack` packed."""
    content, status, reason, run, entry, answer, detail = packed.split(":", 6)
    return Record.model_validate(
        {
            "request_id": request_id,
            "content": content,
            "status": status,
            "reason": reason,
            "run": int(run),
            "entry": int(entry),
            "answer": int(answer),
            "detail": detail,
        }
    )


def view(record: Record, generation_id: str, answer_text: str | None = None) -> SubmissionView:
    """A record as its sender sees it."""
    return SubmissionView(
        request_id=record.request_id,
        status=record.status,
        content=record.content,
        generation_id=generation_id if record.run else "",
        entry=record.entry if record.entry >= 0 else None,
        answer=record.answer if record.answer >= 0 else None,
        answer_text=answer_text,
        reason=record.reason,
        detail=record.detail,
    )
