"""`tarry.conversation`: the long-lived owner of a transcript, its inbox and its runs (spec §7).

One run at a time, each a child workflow that returns its entries. The workflow continues as new between
runs, when it is quiet, and carries references rather than content (spec §8.2).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import NoReturn

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tarry import attributes
from tarry.core.agent import Agent, AgentChange
from tarry.core.choices import CONFIGURE
from tarry.core.commits import COMMIT, CommitInput, Committed
from tarry.core.compaction_protocol import COMPACT, LARGE
from tarry.core.conversation import ConversationInput, ConversationState
from tarry.core.documents import DOCUMENTS, DocumentsQuery, DocumentsView
from tarry.core.forks import FORK_SOURCE, ForkSource
from tarry.core.inbox import Record, view
from tarry.core.ledger import USAGE_MEMO
from tarry.core.mail import TAKE, MailTold, TakeInput
from tarry.core.open_run import OpenRun
from tarry.core.protocol import (
    ABORT,
    CONVERSATION,
    DUPLICATE,
    ENTRIES,
    INVALID,
    SUBMISSION,
    SUBMIT,
    VIEW,
    WITHDRAW,
    EntriesQuery,
    SubmissionLookup,
    SubmissionView,
    SubmitInput,
    Withdrawal,
)
from tarry.core.subagents.protocol import AGENTS, tree_of
from tarry.core.transcript import NoSuchPosition, Slice
from tarry.core.views import ConversationView
from tarry.seeing.spans import traceparent
from workflows import patches
from workflows.conversation import ended_runs, outbox
from workflows.conversation.choosing import Choosing
from workflows.conversation.compactor import Compactor
from workflows.conversation.reading import readable
from workflows.conversation.refusing import check_id, refusing, unless_refused
from workflows.conversation.room import FULL, Room, request_named
from workflows.conversation.runs import run_generation
from workflows.ends import read_signal
from workflows.keeping import archive_settled, find_archived, find_submission, fold, seal
from workflows.run.mailing import hand_over, tell_mail
from workflows.supervise import StopSwitch, supervise

_SIGNALS = (SUBMIT, WITHDRAW, COMPACT, CONFIGURE, ABORT)
"""Plain signals that any shell may send."""

RUNS_MEMO = "tarry.runs"
"""The memo entry that holds the number of the run that ended last."""

_FROM_A_SHELL = ConversationInput()
"""What a conversation begins with that is started without an input."""


@workflow.defn(name=CONVERSATION)
class Conversation:
    """Admits inputs, answers them one run after the other, and never ends by itself."""

    @workflow.init
    def __init__(self, input: ConversationInput = _FROM_A_SHELL) -> None:
        self._state = input.carry or ConversationState.born(input.nonce or workflow.uuid4().hex[:12], input.agent)
        self._state.by_boundary = self._goes_by_boundary(input)
        self._state.tree = input.tree
        self._state.below.tree = self._state.below.tree or input.tree
        self._room = Room()
        self._choosing = Choosing(self._state, self._room)
        self._stop = StopSwitch()
        self._stops = 0
        self._admission = asyncio.Lock()
        self._arriving: list[str] = []
        self._must_turn_over = False
        self._notes_ends = input.notes_ends
        self._folds = input.folds
        self._compactor = Compactor(self._state, self._room)

    def _goes_by_boundary(self, input: ConversationInput) -> bool:
        is_known = input.by_boundary or (input.carry is not None and input.carry.by_boundary)
        return is_known or patches.BY_BOUNDARY.is_passed()

    @workflow.run
    async def run(self, input: ConversationInput = _FROM_A_SHELL) -> NoReturn:
        """Serve until it is time to continue as new."""
        if workflow.info().typed_search_attributes.get(attributes.CONVERSATION) is None:
            # Whoever started it by a plain signal did not set it, and lists go by it (spec §9.1).
            workflow.upsert_search_attributes([attributes.CONVERSATION.value_set(workflow.info().workflow_id)])
        services = (
            outbox.serve(self._state.commits),
            self._tell_mail(),
            self._compactor.serve(),
            self._choosing.serve(),
            ended_runs.serve(self._state),
        )
        self._serving = [asyncio.ensure_future(service) for service in services]
        await supervise(self._body(), self._abort_all)
        while self._stop.is_set or self._must_stay:  # a Stop, or a commit, in the very task that turns over
            await supervise(self._body(), self._abort_all)
        if self._state.is_run_behind:  # it has not begun yet, and begins with what was chosen meanwhile
            self._state.tell_choices()
        next_run = input.model_copy(update={"carry": self._state, "agent": Agent(), "folds": True})
        workflow.continue_as_new(next_run, memo=dict(workflow.memo()))  # or lists would forget what was spent

    async def _body(self) -> None:
        """Answer inputs until it is time to continue as new."""
        self._choosing.leave(is_leaving=False)
        while True:
            await workflow.wait_condition(
                lambda: self._state.open is not None or self._state.is_untidy or self._should_turn_over()
            )
            if self._state.open is not None:
                await self._answer(self._state.open)
            elif self._state.is_untidy:
                await self._tidy()
            if self._should_turn_over():
                self._choosing.leave(is_leaving=True)
                return

    async def _answer(self, run: OpenRun) -> None:
        result = await run_generation(self._state, run, self._stop, self._state.begin_open)
        if result.pages and self._state.transcript.tail:
            await seal(self._state.transcript, StopSwitch())
        stopped = self._state.open
        keeps = stopped is not None and stopped.may_overtake(result) and patches.OVERTAKEN.is_passed()
        self._state.close_run(run, result, workflow.now(), keeps_steers=keeps)
        if result.is_large and not (self._stop.is_set and patches.STOPPED_LARGE.is_passed()):
            self._state.compactions.ask_by_itself(run.settings)
        self._note_end(run)
        self._tell_settled()
        if result.reason == "aborted" and not self._stop.is_set:  # somebody stopped the run itself
            self._stop_below()
        self._stop = StopSwitch()
        await self._tidy()
        self._state.open_next(workflow.now(), workflow.info().workflow_id)

    async def _tidy(self) -> None:
        """Move what has grown into the store."""
        if self._state.transcript.wants_sealing:
            await seal(self._state.transcript, self._stop)
        if self._folds:
            await fold(self._state.transcript)
        while self._state.inbox.wants_archiving and await archive_settled(self._state):
            pass

    def _note_end(self, run: OpenRun) -> None:
        """Leave an event where a run ends, so that a replay is given what comes after it by itself.

        The SDK counts a workflow task that left none to the next one; a worker without a cache then sees an update of
        that one before the end of the run, and its replay after it.
        """
        if self._notes_ends or patches.NOTED_ENDS.is_passed():
            # What was spent is told along, so that lists know it with no worker up (spec §7.8).
            workflow.upsert_memo({RUNS_MEMO: run.run, USAGE_MEMO: self._state.spent})

    def _should_turn_over(self) -> bool:
        info = workflow.info()
        events = info.get_current_history_length()
        is_long = events > self._state.turnover_events or info.is_continue_as_new_suggested()
        return (self._must_turn_over or is_long) and not self._must_stay

    @property
    def _must_stay(self) -> bool:
        """Whether something is under way that a new run could not await."""
        return bool(self._state.commits.outbox or self._state.ended_runs) or self._compactor.is_busy

    def _abort_all(self) -> None:
        """Temporal's cancel means Stop; the conversation lives on in a fresh run (spec §7.4)."""
        self._abort()
        self._must_turn_over = True

    def _abort(self) -> str:
        self._stops += 1
        self._compactor.stop()
        self._stop_inbox()
        self._stop_below()
        if self._state.open is None:
            return ""
        self._stop.set()
        return self._state.open.generation_id

    def _stop_inbox(self, only: str = "") -> None:
        keeps = self._state.inbox.has_steer and patches.OVERTAKEN.is_passed()
        self._state.stop(keeps_steers=keeps, only=only)
        self._tell_settled()

    def _stop_below(self) -> None:
        """By the outbox, so that it also leaves when the run of this workflow turns over (spec §17.11)."""
        self._state.commits.send(self._state.below.stop(workflow.info().workflow_id, self._state.runs))

    def _learn_of_agents(self) -> None:
        own = workflow.info().workflow_id
        self._state.commits.send(self._state.below.learn(own, tree_of(f"{own}~{self._state.nonce}")))

    @workflow.update(name=SUBMIT)
    async def submit(self, input: SubmitInput) -> SubmissionView:
        """Admit an input durably (spec §7.1)."""
        self._room.updates += 1
        return await self._admit(input)

    @submit.validator
    def _check_submit(self, input: SubmitInput) -> None:
        known = self._state.inbox.find(input.request_id)
        # One that is not known may be archived: only the handler can look there.
        if known is not None or input.is_new or not self._state.inbox.archive:
            known = self._check(input, known)
        if known is not None:
            raise ApplicationError("known request id", self._view(known), type=DUPLICATE)
        self._room.check_update()

    async def _admit(self, input: SubmitInput) -> SubmissionView:
        """One at a time, so that inputs keep the order of their arrival."""
        stops = self._stops
        if not input.request_id:
            input = input.model_copy(update={"request_id": str(workflow.uuid4())})
        input = input.model_copy(update={"trace": traceparent()})
        self._arriving.append(input.request_id)
        try:
            async with self._admission:
                known = self._check(input, await self._known(input))
                return self._view(known or self._take_in(input, was_stopped=self._stops > stops))
        finally:
            self._arriving.remove(input.request_id)

    async def _known(self, input: SubmitInput) -> Record | None:
        if input.is_new:
            return self._state.inbox.find(input.request_id)
        return await find_submission(self._state.inbox, input.request_id)

    def _take_in(self, input: SubmitInput, *, was_stopped: bool) -> Record:
        """Admit a new input; one that a Stop overtook while the archive was asked belongs to what that Stop found."""
        has_later = was_stopped and any(item.is_input for item in self._state.inbox.queue)
        only = input.request_id if has_later and patches.LATE_LOOKUPS.is_passed() else ""
        self._state.inbox.admit(input, workflow.now())
        if was_stopped and self._stop.is_set:
            self._stop_inbox(only)
        elif was_stopped:  # the run that it would have steered is over
            self._state.inbox.withdraw_queued(only)
            self._tell_settled()
        self._state.open_next(workflow.now(), workflow.info().workflow_id)
        record = self._state.inbox.find(input.request_id)
        assert record is not None
        return record

    def _tell_settled(self) -> None:
        """In the task that settles: the outbox is part of the same commit (spec §7.2)."""
        self._state.commits.send(self._state.notices(workflow.info().workflow_id))

    async def _tell_mail(self) -> None:
        """Tell the open run of mail, also of what came before its workflow was there.

        One that ends in the same task may be told all the same: the SDK looks at conditions before it takes in what has
        completed. That harms nothing, and replays alike because each end leaves an event.
        """
        while True:
            await workflow.wait_condition(lambda: self._state.wants_telling and not self._stop.is_set)
            guard = patches.STEERS if self._state.open is not None and self._state.open.is_told else patches.MAIL
            run = self._state.tell_open()
            if guard.is_passed():
                await tell_mail(run.generation_id, MailTold(steers=run.is_told_of_steers))

    async def _hand_over(self, args: Sequence[RawValue]) -> None:
        take = read_signal(args, TakeInput)
        if take is not None and self._stop.is_set:
            # What came after the Stop is for the next run: this one would take it along to its end.
            take = take.model_copy(update={"only_look": True})
        brings = self._state.inbox.brings_choices and patches.CHOICES_OF_STEERS.is_passed()
        boundary = None if take is None else self._state.hand_over(take, brings=brings)
        if brings:  # the next request goes by them
            await self._choosing.told()
        if take is not None and boundary is not None:
            await hand_over(take.generation_id, boundary)

    def _check(self, input: SubmitInput, known: Record | None) -> Record | None:
        check_id()
        with refusing():
            return self._state.inbox.check(input, busy=self._state.open is not None, known=known)

    def _view(self, record: Record) -> SubmissionView:
        run_id = self._state.generation_of(workflow.info().workflow_id, record.run)
        return view(record, run_id, self._state.answer_text(record))

    @workflow.update(name=COMMIT)
    async def commit(self, input: CommitInput) -> Committed:
        """Several changes that become durable together (spec §7.3)."""
        self._room.updates += 1
        archived = await find_archived(self._state.inbox, input)
        with refusing():
            return self._state.commit(input, workflow.now(), workflow.info().workflow_id, archived)

    @commit.validator
    def _check_commit(self, input: CommitInput) -> None:
        check_id()
        with refusing():
            if self._state.commits.is_known(input):
                raise ApplicationError("known key", Committed(key=input.key, is_repeat=True), type=DUPLICATE)
            self._state.check_commit(input)
        self._room.check_update(has_signal=False)

    @workflow.update(name=ABORT)
    def abort(self) -> str:
        """Stop the open run and end the inputs that are queued; the id of the run to wait for, or nothing."""
        self._room.updates += 1
        return self._abort()

    @workflow.update(name=WITHDRAW)
    async def withdraw(self, request_id: str) -> Withdrawal:
        """Take back a submission that is still queued (spec §7.1)."""
        self._room.updates += 1
        return await self._withdraw(request_id)

    @withdraw.validator
    def _check_withdraw(self, request_id: str) -> None:
        self._room.check_update()

    async def _withdraw(self, request_id: str) -> Withdrawal:
        """Behind what came before it, so that one which is being looked up is found."""
        async with self._admission:
            if await find_submission(self._state.inbox, request_id) is None:
                return "not_found"
            answer = self._state.inbox.take_back(request_id)
            if answer == "withdrawn":
                self._state.compactions.withdrawn(request_id)
            self._tell_settled()
            return answer

    @workflow.signal(dynamic=True)
    async def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Temporal signals by name, from any shell: never fails, and keeps why it refused."""
        if self._room.refuses_signal(name):
            self._state.refuse(f"{name}: {FULL}", request_named(args))
        else:
            await self._take_signal(name, args)

    async def _take_signal(self, name: str, args: Sequence[RawValue]) -> None:
        bare = {ABORT: self._abort, AGENTS: self._learn_of_agents}
        compacting = {COMPACT: self._compactor.ask_by_signal, LARGE: self._compactor.hear}
        if name in bare:
            bare[name]()
        elif name in compacting:
            compacting[name](args)
        elif name == TAKE:
            await self._hand_over(args)
        elif name == CONFIGURE:
            if (change := readable(self._state, name, args, AgentChange)) is not None:
                self._state.configure(change)
        elif name == WITHDRAW:
            if (request_id := readable(self._state, name, args, str)) is not None:
                await unless_refused(self._state, name, request_id, self._withdraw(request_id))
        elif name != SUBMIT:
            self._state.refuse(f"{name[:100]}: no such signal; known are {', '.join(_SIGNALS)}")
        elif (input := readable(self._state, name, args, SubmitInput)) is not None:
            await unless_refused(self._state, name, input.request_id, self._admit(input))

    @workflow.query(name=ENTRIES)
    def entries(self, query: EntriesQuery) -> Slice:
        """The newest entries before a place, or the page that holds it (spec §6.1)."""
        try:
            return self._state.transcript.slice(query.upto, query.max_bytes)
        except NoSuchPosition as error:
            raise ApplicationError(str(error), type=INVALID) from error

    @workflow.query(name=VIEW)
    def view(self) -> ConversationView:
        """The conversation as it stands."""
        return self._state.view(workflow.info().workflow_id)

    @workflow.query(name=DOCUMENTS)
    def documents(self, query: DocumentsQuery) -> DocumentsView:
        """Documents as they are stored, and what a writer needs to know for an edit (spec §7.7)."""
        return self._state.documents_view(query)

    @workflow.query(name=FORK_SOURCE)
    def fork_source(self) -> ForkSource:
        """What a fork of it is made of (spec §16)."""
        return ForkSource.of(self._state)

    @workflow.query(name=SUBMISSION)
    def submission(self, request_id: str) -> SubmissionLookup:
        """What became of a submission, or where to look for it."""
        record = self._state.inbox.find(request_id)
        return SubmissionLookup(
            submission=self._view(record) if record else None,
            archive=tuple(reversed(self._state.inbox.archive)),
            pending=request_id in self._arriving,
        )
