"""The state of a conversation: what it carries from run to run.

Pure. Time comes in as `now`.
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from signals.box import Delivery
from tarry.core.commits import CommitInput, Commits, Committed, SendSignal
from tarry.core.inbox import Conflict, Inbox, Queued, Record
from tarry.core.mail import Boundary, TakeInput, Taken
from tarry.core.messages import AssistantMessage, Frozen, Usage
from tarry.core.protocol import ConversationView, Refusal, RunResult, RunSettings, SubmitInput, digest
from tarry.core.settled import MAX_ANSWER_BYTES, SUBMISSION_SETTLED, Settled
from tarry.core.text import canonical_json
from tarry.core.transcript import NoSuchPosition, Position, Transcript, note_draft, user_draft

REFUSALS = 20
REFUSAL_LIMIT = 300


def generation_id(conversation_id: str, nonce: str, run: int) -> str:
    """The workflow id of a run: never the same for two conversations, also under one id (spec §1.2)."""
    return f"{conversation_id}~{nonce}/g{run}"


class OpenRun(Frozen):
    """The run that is under way."""

    run: int
    generation_id: str
    request_id: str
    start: Position
    settings: RunSettings
    context_start: Position | None = None
    taken: tuple[Queued, ...] = Field(default=(), description="steers that it took at a boundary")
    is_begun: bool = Field(default=False, description="its workflow is there and can be told of mail")
    is_told: bool = Field(default=False, description="that a steer is queued, since its last boundary")


class ConversationState(BaseModel):
    """Everything a conversation knows, carried as it is over a turn of its workflow run."""

    nonce: str
    runs: int = 0
    open: OpenRun | None = None
    transcript: Transcript = Field(default_factory=Transcript)
    inbox: Inbox = Field(default_factory=Inbox)
    usage: Usage = Usage()
    turnover_events: int = RunSettings().turnover_events
    refusals: list[Refusal] = Field(default_factory=list)
    commits: Commits = Field(default_factory=Commits)
    extensions: tuple[str, ...] | None = Field(default=None, description="selected last; None: all that are installed")

    @classmethod
    def born(cls, nonce: str) -> ConversationState:
        """A new conversation. Its transcript's chain begins with the nonce: no other conversation has its chains."""
        return cls(nonce=nonce, transcript=Transcript(start=Position(chain=nonce)))

    def open_next(self, now: datetime, conversation_id: str) -> None:
        """Place the oldest queued input and open its run, unless one is open or nothing waits."""
        if self.open is not None:
            return
        self._place_notes()
        if not self.inbox.queue:
            return
        self.runs += 1
        entry = self.transcript.append(user_draft(self.inbox.queue[0].content, now, self.runs))
        item = self.inbox.place(self.runs, entry.index)
        settings = self._chosen(item.settings)
        self.turnover_events = settings.turnover_events
        self.open = OpenRun(
            run=self.runs,
            generation_id=generation_id(conversation_id, self.nonce, self.runs),
            request_id=item.request_id,
            start=entry.position,
            settings=settings,
            context_start=self.transcript.context_start,
        )

    def _chosen(self, settings: RunSettings) -> RunSettings:
        """The settings of an input, with the extensions of the conversation where it names none; the latest count."""
        if settings.extensions is None:
            return settings.model_copy(update={"extensions": self.extensions})
        self.extensions = settings.extensions
        return settings

    def _place_notes(self) -> None:
        for note in self.commits.taken_notes():
            self.transcript.append(note_draft(note.text, note.at, self.runs))

    def commit(self, commit: CommitInput, now: datetime, conversation_id: str) -> Committed:
        """Take a commit, all of it or nothing; under a known key nothing, and it is told so (spec §7.3).

        Raises:
            Conflict: the key was used for other content.
            TooLarge, Full: it cannot be taken; nothing was.
        """
        if self.commits.is_known(commit):
            return Committed(key=commit.key, is_repeat=True)
        inputs = self.check_commit(commit)
        self.commits.take(commit, now)
        for submit in inputs:
            self.inbox.admit(submit, now)
        self.open_next(now, conversation_id)
        return Committed(key=commit.key)

    def check_commit(self, commit: CommitInput) -> list[SubmitInput]:
        """The inputs that a new commit brings, each under an id that is not known here; raises as `commit`."""
        self.commits.check(commit)
        new: dict[str, SubmitInput] = {}
        for number, submit in enumerate(commit.inputs):
            if not submit.request_id:
                submit = submit.model_copy(update={"request_id": f"commit-{digest(commit.key)}-{number}"})
            earlier = new.setdefault(submit.request_id, submit)
            if earlier.content != submit.content:
                raise Conflict(f"request id {submit.request_id!r} is there twice, with different content")
            if self.inbox.check(submit, busy=False, known=self.inbox.find(submit.request_id)) is not None:
                del new[submit.request_id]
        self.inbox.check_room(len(new))
        return list(new.values())

    def rename_open(self, generation_id: str) -> OpenRun:
        """The open run goes on under another id, since another timeline used its own (spec §1.7)."""
        assert self.open is not None
        self.open = self.open.model_copy(update={"generation_id": generation_id, "is_begun": False, "is_told": False})
        return self.open

    def generation_of(self, conversation_id: str, run: int) -> str:
        """The workflow id of a run."""
        if self.open is not None and self.open.run == run:
            return self.open.generation_id
        return generation_id(conversation_id, self.nonce, run)

    def close_run(self, run: OpenRun, result: RunResult, now: datetime) -> None:
        """Take over what the run returned and settle its input.

        What does not continue this transcript is left out and the run counts as lost: nothing may wedge here.
        """
        try:
            self.transcript.extend(list(result.pages), list(result.entries))
        except NoSuchPosition as error:
            result = RunResult(status="unanswered", reason="lost", detail=str(error), usage=result.usage)
        if result.reason == "lost":
            self.transcript.append(note_draft(f"The run was lost: {result.detail}", now, run.run))
        assert self.open is not None
        last = self.transcript.tail[-1].index if result.answer is None else result.answer
        answer = last if result.status == "done" else None
        taken = [item for item in self.open.taken if item.request_id not in result.placed]
        placed = [item.request_id for item in self.open.taken if item.request_id in result.placed]
        for request_id in (run.request_id, *placed):
            self.inbox.settle(request_id, answer=answer, reason=result.reason, detail=result.detail)
        self.inbox.give_back(taken)
        if result.reason == "aborted":  # the Stop found them on their way
            for item in taken:
                self.inbox.withdraw(item)
        self.usage = self.usage + result.usage
        self.open = None

    def begin_open(self) -> None:
        """The workflow of the open run is there."""
        assert self.open is not None
        self.open = self.open.model_copy(update={"is_begun": True})

    @property
    def wants_telling(self) -> bool:
        """Whether the open run is to be told that a steer is queued: once until it asks."""
        return self.open is not None and self.open.is_begun and not self.open.is_told and self.inbox.steers > 0

    def tell_open(self) -> OpenRun:
        """The open run counts as told."""
        assert self.open is not None
        self.open = self.open.model_copy(update={"is_told": True})
        return self.open

    def take_steer(self, take: TakeInput) -> Boundary | None:
        """What the open run gets at a boundary; None when it is not that run that asks."""
        if self.open is None or self.open.generation_id != take.generation_id:
            return None
        item = None if take.only_look else self.inbox.take_steer(self.open.run)
        taken = self.open.taken if item is None else (*self.open.taken, item)
        self.open = self.open.model_copy(update={"taken": taken, "is_told": False})
        items = () if item is None else (Taken(request_id=item.request_id, content=item.content, at=item.at),)
        queued = len(self.inbox.queue) if take.only_look else self.inbox.steers
        return Boundary(number=take.number, items=items, queued=queued)

    def notices(self, conversation_id: str) -> list[SendSignal]:
        """Who is to be told of submissions that have settled since, and what (spec §7.2)."""
        records, self.inbox.notices = self.inbox.notices, []
        return [self._notice(conversation_id, record) for record in records]

    def _notice(self, conversation_id: str, record: Record) -> SendSignal:
        assert record.notify is not None
        text = self.answer_text(record)
        settled = Settled(
            conversation_id=conversation_id,
            request_id=record.request_id,
            status=record.status,
            reason=record.reason,
            detail=record.detail,
            answer=record.answer if record.answer >= 0 else None,
            answer_text=text if text is None or len(text.encode()) <= MAX_ANSWER_BYTES else None,
        )
        delivery = Delivery(
            signal=SUBMISSION_SETTLED.name,
            key=record.notify.key,
            value=settled.model_dump(mode="json"),
            version=SUBMISSION_SETTLED.version,
            delivery_id=digest(canonical_json([conversation_id, self.nonce, record.request_id])),
        )
        return SendSignal(task_id=record.notify.task_id, delivery=delivery)

    def answer_text(self, record: Record) -> str | None:
        """The text of an answer that is still in the open tail."""
        offset = record.answer - self.transcript.tail_start.index
        if record.answer < 0 or not 0 <= offset < len(self.transcript.tail):
            return None
        message = self.transcript.tail[offset].message
        return message.text if isinstance(message, AssistantMessage) else None

    def refuse(self, why: str, request_id: str = "") -> None:
        """Remember, bounded, why an input by Temporal signal was refused."""
        refusal = Refusal(request_id=request_id[:REFUSAL_LIMIT], reason=why[:REFUSAL_LIMIT])
        self.refusals = [*self.refusals, refusal][-REFUSALS:]

    def view(self, conversation_id: str) -> ConversationView:
        """The conversation as a query answers it."""
        return ConversationView(
            conversation_id=conversation_id,
            nonce=self.nonce,
            end=self.transcript.end,
            pages=tuple(self.transcript.pages),
            open_generation=self.open.generation_id if self.open else None,
            queued=tuple(item.request_id for item in self.inbox.queue),
            runs=self.runs,
            usage=self.usage,
            refusals=tuple(self.refusals),
        )


class ConversationInput(Frozen):
    """`nonce` is drawn by whoever starts the conversation, so that a reset keeps it (spec §1.2).

    Empty, as from a shell: the workflow draws it as the first thing it does, which a reset repeats.
    """

    nonce: str = ""
    carry: ConversationState | None = None
    notes_ends: bool = Field(default=False, description="False: maybe begun before an end of a run left an event")
