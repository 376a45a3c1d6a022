"""The state of a conversation: what it carries from run to run. Pure; time comes in as `now`."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field, model_validator

from tarry.core.after_run import AfterRun
from tarry.core.agent import Agent, AgentChange
from tarry.core.boundaries import is_reset, place_taken, selected
from tarry.core.choices import Choice, Choices, ChoicesTold
from tarry.core.commits import CommitInput, Commits, Committed, SendSignal, submissions
from tarry.core.compaction_protocol import NoSummary, Summary
from tarry.core.compactions import Compactions
from tarry.core.documents import Documents, DocumentsQuery, DocumentsView
from tarry.core.inbox import Conflict, Inbox, Queued, Record
from tarry.core.ledger import Ledger
from tarry.core.lineage import Parent
from tarry.core.live_inbox import inbox_items
from tarry.core.mail import Boundary, TakeInput, Taken
from tarry.core.messages import AssistantMessage, Frozen, Usage
from tarry.core.open_run import NOT_TOLD, OpenRun, asks_first, generation_id
from tarry.core.protocol import RunResult, RunSettings, SubmitInput
from tarry.core.run_hooks import RunHookAnswer
from tarry.core.settled import settled_signal
from tarry.core.subagents.below import Below
from tarry.core.transcript import NoSuchPosition, Position, Transcript, note_draft, user_draft
from tarry.core.turns import Turns
from tarry.core.views import ConversationView, Refusal

REFUSALS = 20
REFUSAL_LIMIT = 300


class ConversationState(BaseModel):
    """Everything a conversation knows, carried as it is over a turn of its workflow run."""

    nonce: str
    runs: int = 0
    open: OpenRun | None = None
    transcript: Transcript = Field(default_factory=Transcript)
    inbox: Inbox = Field(default_factory=Inbox)
    usage: Usage = Usage()
    spent: Ledger = Ledger()
    turnover_events: int = RunSettings().turnover_events
    refusals: list[Refusal] = Field(default_factory=list)
    commits: Commits = Field(default_factory=Commits)
    documents: Documents = Documents()
    choices: Choices = Field(default_factory=Choices)
    by_boundary: bool = Field(default=False, description="False: one input a run; notes of commits wait for its end")
    compactions: Compactions = Field(default_factory=Compactions)
    parent: Parent | None = None
    turns: Turns = Field(default_factory=Turns)
    ended_runs: list[AfterRun] = Field(default_factory=list, description="hooks are to be told of their end")
    tree: str = Field(default="", description="that it is a subagent of; empty: a root")
    below: Below = Field(default_factory=Below)
    may_rest: bool = Field(default=False, description="a run that was stopped may have given a turn's permit back")

    @model_validator(mode="before")
    @classmethod
    def _read_extensions(cls, data: Any) -> Any:
        """An earlier version kept a list of extensions alone."""
        if isinstance(data, dict) and data.get("extensions") is not None and "choices" not in data:
            return {**data, "choices": {"log": [{"agent": {"extensions": data["extensions"]}}]}}
        return data

    @classmethod
    def born(cls, nonce: str, agent: Agent | None = None) -> ConversationState:
        """A new conversation. Its transcript's chain begins with the nonce: no other conversation has its chains."""
        choices = Choices(log=[Choice(agent=agent or Agent())])
        start = Transcript(start=Position(chain=nonce))
        return cls(nonce=nonce, transcript=start, choices=choices, by_boundary=True)

    def open_next(self, now: datetime, conversation_id: str) -> None:
        """The final boundary: place the queued writes, then inputs, and open their run. Nothing while one is open."""
        if self.open is not None:
            return
        self._place_writes()
        inputs = selected(self.inbox.queue, "final")
        self._open_run(inputs if self.by_boundary else inputs[:1], now, conversation_id)
        self.commits.send(self.notices(conversation_id))  # of writes: no run ends with them

    @property
    def is_untidy(self) -> bool:
        """Whether writes alone, without a run, have let something grow that belongs into the store."""
        return self.by_boundary and (self.transcript.wants_sealing or self.inbox.wants_archiving)

    def _place_writes(self) -> None:
        for note in self.commits.taken_notes():
            self.transcript.append(note_draft(note.text, note.at, self.runs))
        for item in self.inbox.writes:
            self.inbox.take([item], self.runs)
            (entry,) = place_taken(self.transcript, [item], self.runs).values()
            self._settle_write(item.request_id, entry)

    def _settle_write(self, request_id: str, entry: int) -> None:
        self.inbox.settle_write(request_id, entry)
        self.compactions.placed(request_id, entry)

    def _open_run(self, inputs: list[Queued], now: datetime, conversation_id: str) -> None:
        """One run for all of them, under the settings of the first."""
        if not inputs:
            return
        self.runs += 1
        self.turns.begin(self.runs, self.transcript.end.index)
        for item in inputs:
            self._bring(item.settings)
        for item in inputs:
            entry = self.transcript.append(user_draft(item.content, now, self.runs))
            self.inbox.place(item, self.runs, entry.index)
        settings = inputs[0].settings.for_agent(self.choices.agent)
        self.turnover_events = settings.turnover_events
        asks = bool(self.tree) and asks_first(conversation_id, inputs, may_rest=self.may_rest)
        self.may_rest = self.may_rest and not asks
        self.open = OpenRun(
            run=self.runs,
            generation_id=generation_id(conversation_id, self.nonce, self.runs),
            request_id=inputs[0].request_id,
            others=tuple(item.request_id for item in inputs[1:]),
            start=self.transcript.end,
            settings=settings,
            context_start=self.transcript.context_start,
            began_with=self.choices.number,
            knows=self.choices.number,
            trace=inputs[0].trace,
            asks=asks,
        )

    def _bring(self, settings: RunSettings) -> None:
        """Take the choices that came with an input; those of earlier versions named extensions."""
        if settings.agent is not None:
            self.configure(AgentChange(**{name: value for name, value in settings.agent if value is not None}))

    def configure(self, change: AgentChange) -> None:
        """Change the choices; no run begins, and no entry is made (spec §7.6)."""
        self.choices.choose(change, self.transcript.end.index)

    @property
    def is_run_behind(self) -> bool:
        """Whether the open run does not know the choices that count."""
        return self.open is not None and self.open.knows < self.choices.number

    def tell_choices(self) -> ChoicesTold:
        """What to tell the open run, which counts as told."""
        assert self.open is not None
        told = ChoicesTold(number=self.choices.number, agent=self.choices.agent)
        settings = self.open.settings.for_agent(told.agent)
        began_with = self.open.began_with if self.open.is_begun else told.number
        self.open = self.open.model_copy(update={"knows": told.number, "settings": settings, "began_with": began_with})
        return told

    def end_compaction(self, answer: Summary | NoSummary, now: datetime, conversation_id: str) -> None:
        """The compaction under way has brought this. What it writes is placed at the next boundary: now, when idle."""
        self.usage = self.usage + answer.usage
        self.spent = self.spent + answer.spent
        for submit in self.compactions.ended(answer):
            self.inbox.admit(submit, now)
        self.open_next(now, conversation_id)

    def commit(
        self, commit: CommitInput, now: datetime, conversation_id: str, archived: Sequence[Record] = ()
    ) -> Committed:
        """Take a commit, all of it or nothing; under a known key nothing, and it is told so (spec §7.3).

        `archived`: the records of its inputs that only the archive knows.

        Raises:
            Conflict: the key was used for other content.
            Outdated: a document has another revision than the one that an edit was made of.
            TooLarge, Full: it cannot be taken; nothing was.
        """
        if self.commits.is_known(commit):
            return Committed(key=commit.key, is_repeat=True)
        inputs = self.check_commit(commit, archived)
        self.documents = self._edited(commit)
        self.commits.take(commit, now, keeps_notes=not self.by_boundary)
        for submit in inputs:
            self.inbox.admit(submit, now)
        self.open_next(now, conversation_id)
        return Committed(key=commit.key)

    def check_commit(self, commit: CommitInput, archived: Sequence[Record] = ()) -> list[SubmitInput]:
        """What a new commit submits, each under an id that is not known here; raises as `commit`."""
        self.commits.check(commit)
        self._edited(commit)
        old = {record.request_id: record for record in archived}
        new: dict[str, SubmitInput] = {}
        for submit in submissions(commit, with_notes=self.by_boundary):
            earlier = new.setdefault(submit.request_id, submit)
            if earlier.digest != submit.digest:
                raise Conflict(f"request id {submit.request_id!r} is there twice, with different content")
            known = self.inbox.find(submit.request_id) or old.get(submit.request_id)
            if self.inbox.check(submit, busy=False, known=known) is not None:
                del new[submit.request_id]
        self.inbox.check_room(len(new))
        return list(new.values())

    def _edited(self, commit: CommitInput) -> Documents:
        return self.documents.edited(commit.documents, self.transcript.end.index, is_open=self.open is not None)

    def rename_open(self, generation_id: str) -> OpenRun:
        """The open run goes on under another id, since another timeline used its own (spec §1.7)."""
        assert self.open is not None
        self.open = self.open.model_copy(update={"generation_id": generation_id, "is_begun": False} | NOT_TOLD)
        return self.open

    def generation_of(self, conversation_id: str, run: int) -> str:
        """The workflow id of a run."""
        if self.open is not None and self.open.run == run:
            return self.open.generation_id
        return generation_id(conversation_id, self.nonce, run)

    def stop(self, *, keeps_steers: bool = True, only: str = "") -> None:
        """A Stop: what is queued ends, but for writes. Steers stand in the transcript first, if it `keeps_steers`.

        It takes them as a boundary does, and they are placed when the open run has ended (spec §7.4). `only`: the id of
        one that it overtook; the others came since.
        """
        steers = [item for item in self.inbox.steers if keeps_steers and only in ("", item.request_id)]
        for item in steers:
            self._bring(item.settings)
        if self.open is None:
            self._place_overtaken(steers)
        else:
            self.inbox.take(steers, self.open.run)
            self.open = self.open.stopped(steers)
        self.inbox.withdraw_queued(only)

    def close_run(self, run: OpenRun, result: RunResult, now: datetime, *, keeps_steers: bool = True) -> None:
        """Take over what the run returned and settle its input; of a stopped one also the steers that it left.

        What does not continue this transcript is left out and the run counts as lost: nothing may wedge here. Without
        `keeps_steers` those that it left stand nowhere.
        """
        try:
            self.transcript.extend(list(result.pages), list(result.entries))
        except NoSuchPosition as error:
            result = RunResult(
                status="unanswered", reason="lost", detail=str(error), usage=result.usage, spent=result.spent
            )
        if result.reason == "lost":
            self.transcript.append(note_draft(f"The run was lost: {result.detail}", now, run.run))
        assert self.open is not None
        last = self.transcript.end.index - 1 if result.answer is None else result.answer  # the tail may be sealed
        answer = last if result.status == "done" else None
        if answer is not None:
            self.turns.complete(run.run, self.transcript.end.index)
        placed, left = self._placed(self.open, result)
        ended = (run.request_id, *run.others, *placed)
        if result.after_run:
            self.ended_runs.append(AfterRun.of(run.generation_id, ended, self.open.settings, result))
        for request_id in ended:
            self.inbox.settle(request_id, answer=answer, reason=result.reason, detail=result.detail)
        self.inbox.give_back(left)
        overtaken = [item for item in left if item.is_input] if self.open.may_overtake(result) else []
        self.may_rest = self.may_rest or result.reason in ("aborted", "lost")
        self.usage, self.spent = self.usage + result.usage, self.spent + result.spent
        self.choices.place(result.taken_up, self.open.began_with, self.transcript.end.index)
        self.open = None
        if keeps_steers:
            self._place_overtaken(overtaken)
        elif result.reason == "aborted":
            for item in overtaken:
                self.inbox.withdraw(item)

    def _place_overtaken(self, steers: list[Queued]) -> None:
        """What a Stop overtook stands behind the newest run, where the next one reads it; nothing answers it."""
        if not steers:
            return
        self._place_writes()
        self.inbox.take(steers, self.runs)
        for request_id, entry in place_taken(self.transcript, steers, self.runs).items():
            self.inbox.stands_at(request_id, entry)
            self.inbox.settle(request_id, answer=None, reason="aborted")

    def _placed(self, run: OpenRun, result: RunResult) -> tuple[list[str], list[Queued]]:
        """The steers that a run placed; and what it took and did not place. The writes that it placed are settled."""
        steers: list[str] = []
        others: list[Queued] = []
        for item in run.taken:
            place = result.places.get(item.request_id)
            if item.is_input and item.request_id in result.placed:
                steers.append(item.request_id)
                if place is not None:
                    self.inbox.stands_at(item.request_id, place)
            elif not item.is_input and place is not None:
                self._settle_write(item.request_id, place)
            else:
                others.append(item)
        return steers, others

    def told_end(self, answer: RunHookAnswer, now: datetime, conversation_id: str) -> None:
        """The hooks were told of the oldest of the ended runs: their tasks leave by the outbox, problems are noted."""
        ended = self.ended_runs.pop(0)
        self.commits.send(ended.starts(answer, self.tree))
        for note in ended.notes(answer):
            self.inbox.admit(note, now)
        self.open_next(now, conversation_id)

    def begin_open(self) -> None:
        """The workflow of the open run is there."""
        assert self.open is not None
        self.open = self.open.model_copy(update={"is_begun": True})

    @property
    def wants_telling(self) -> bool:
        """Whether the open run is to be told of what it could place: once until it asks, and once of steers."""
        if self.open is None or not self.open.is_begun:
            return False
        is_new = self.inbox.mail > 0 and not self.open.is_told
        return is_new or (self.inbox.has_steer and not self.open.is_told_of_steers)

    def tell_open(self) -> OpenRun:
        """The open run counts as told."""
        assert self.open is not None
        told = {"is_told": True, "is_told_of_steers": self.inbox.has_steer}
        self.open = self.open.model_copy(update=told)
        return self.open

    def hand_over(self, take: TakeInput, *, brings: bool = True) -> Boundary | None:
        """What the open run gets at a boundary, with its choices if it `brings` them; None: it is not that run."""
        if self.open is None or self.open.generation_id != take.generation_id:
            return None
        items = [] if take.only_look else selected(self.inbox.queue, "after_tools")
        for item in items if brings else ():
            self._bring(item.settings)
        self.inbox.take(items, self.open.run)
        self.open = self.open.model_copy(update={"taken": (*self.open.taken, *items)} | NOT_TOLD)
        taken = tuple(
            Taken(request_id=item.request_id, content=item.content, at=item.at, write=item.write) for item in items
        )
        wins = sum(item.is_input or is_reset(item) for item in self.inbox.queue)
        return Boundary(number=take.number, items=taken, queued=wins if take.only_look else self.inbox.mail)

    def notices(self, conversation_id: str) -> list[SendSignal]:
        """Who is to be told of submissions that have settled since, and what (spec §7.2)."""
        records, self.inbox.notices = self.inbox.notices, []
        return [settled_signal(conversation_id, self.nonce, one, self.answer_text(one)) for one in records]

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

    def documents_view(self, query: DocumentsQuery) -> DocumentsView:
        """Documents as they are stored, and what a writer needs to know."""
        return DocumentsView(
            documents=self.documents.of(query.ids),
            carried=self.documents.carried(),
            open_generation=self.open.generation_id if self.open else None,
            known=self.commits.known(query.key) if query.key else "",
        )

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
            spent=self.spent,
            refusals=tuple(self.refusals),
            documents=self.documents.revision,
            compactions=tuple(self.compactions.views.values()),
            inbox=inbox_items(self.inbox.queue),
            placed=self.open.requests if self.open else (),
            agent=self.choices.agent,
            parent=self.parent,
            tree=self.below.tree,
        )


class ConversationInput(Frozen):
    """`nonce` is drawn by whoever starts the conversation, so that a reset keeps it (spec §1.2).

    Empty, as from a shell: the workflow draws it as the first thing it does, which a reset repeats.
    """

    nonce: str = ""
    carry: ConversationState | None = None
    notes_ends: bool = Field(default=False, description="False: maybe begun before an end of a run left an event")
    by_boundary: bool = Field(default=False, description="False: maybe begun before a run could answer several inputs")
    agent: Agent = Field(default=Agent(), description="the choices that a new conversation begins with")
    folds: bool = Field(default=False, description="False: maybe begun before page references were folded")
    tree: str = Field(default="", description="id of the workflow whose subagent it is; empty: a root (spec §17.10)")
