"""`tarry.generation`: one run, a loop of model responses and their tool calls (spec §6).

It owns the entries of its run and returns them once, as its result. A long run continues as new after
a round, when nothing is open. What to do next is decided by `tarry.core.run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from tarry.core import run as machine
from tarry.core import run_hooks
from tarry.core.boundaries import is_reset, place_taken
from tarry.core.choices import CHOICES, ChoicesTold
from tarry.core.glances import Retry
from tarry.core.ledger import Ledger
from tarry.core.mail import BOUNDARY, MAIL, Boundary, MailTold
from tarry.core.messages import Usage
from tarry.core.protocol import (
    ABORT,
    ENTRIES,
    GENERATION,
    INVALID,
    MODEL_REQUEST,
    NOT_HELD,
    RETRY,
    VIEW,
    EntriesQuery,
    ModelAnswer,
    ModelRequestInput,
    RunResult,
)
from tarry.core.task_state import TaskOutcome
from tarry.core.thresholds import Thresholds
from tarry.core.transcript import (
    NoSuchPosition,
    Slice,
    Transcript,
    assistant_draft,
    note_draft,
    reset_draft,
    system_draft,
    user_draft,
)
from tarry.core.views import GenerationView
from tarry.seeing import metrics
from workflows import ends, metering, options, spans
from workflows.agents import permits
from workflows.agents.permits import Permit
from workflows.ends import read_signal
from workflows.keeping import fold, seal
from workflows.run import hook_tasks, timelines
from workflows.run.mailing import Mailbox
from workflows.run.round import Round
from workflows.summarising import RunCompaction, tell_large
from workflows.supervise import Holder, StopSwitch, supervise


@dataclass(frozen=True)
class HookEnds:
    """What hooks answered at once, and how their tasks ended."""

    go_on: str | None
    outcomes: list[TaskOutcome | None]


@workflow.defn(name=GENERATION)
class Generation:
    """Answers one input; its end is always a result, also after a Stop."""

    @workflow.init
    def __init__(self, input: machine.GenerationInput) -> None:
        self._input = input
        self._state = input.carry.state if input.carry else machine.RunState(after_run=True)
        self._transcript = input.carry.transcript if input.carry else Transcript(start=input.start)
        self._phase, self._model = "model", ""
        self._retry: Retry | None = None
        self._stop = StopSwitch()
        self._mailbox = Mailbox(input.conversation_id, self._stop)
        self._mailbox.resume(self._state)
        self._holder = Holder(self._stop)
        self._permit = Permit(input, self._stop)
        self._compaction = RunCompaction(self._transcript, self._stop)
        # One that was begun before runs compacted ends as it would have ended then.
        self._settings = input.settings.model_copy(update={"compaction": input.settings.compaction and input.compacts})

    @workflow.run
    async def run(self, input: machine.GenerationInput) -> RunResult:
        """Answer the input; a long run continues as new."""
        self._serving = asyncio.ensure_future(self._permit.serve())
        with spans.generation(input) as span:
            result = await supervise(self._whole(), self._stop.set)
            if result is None and self._stop.is_set:  # a Stop in the very task that turns over
                result = self._result(machine.Finish("unanswered", "aborted"))
            spans.end_run(span, result)
        if result is None:
            self._mailbox.leave(self._state)
            carry = machine.RunCarry(state=self._state, transcript=self._transcript)
            workflow.continue_as_new(self._input.model_copy(update={"carry": carry}))
        metering.count(metrics.RUNS, outcome=result.reason or result.status)
        return result

    async def _whole(self) -> RunResult | None:
        if (result := await self._body()) is not None:
            await timelines.leave_behind(self._state, None)
            if self._stop.is_set:
                await self._permit.look_after()
        return result

    async def _body(self) -> RunResult | None:
        """The run; None when the workflow should continue as new."""
        command: machine.Command = machine.RequestModel()
        while not isinstance(command, machine.Finish):
            event = await self._carry_out(command)
            metering.model_request(event, self._model)
            if isinstance(event, machine.Responded):
                await timelines.leave_behind(self._state, event.turn)
            step = machine.advance(self._state, event, self._settings)
            self._append(step, event)
            command = step.command
            if (isinstance(event, machine.TurnEnd) or step.user) and isinstance(command, machine.RequestModel):
                if await self._place_mail():
                    return self._result(machine.Finish("unanswered", "reset"))
                if step.user:
                    self._transcript.append(user_draft(step.user, workflow.now(), self._input.run))
                await self._tell_large()
                if self._transcript.wants_sealing and not self._stop.is_set:
                    await seal(self._transcript, self._stop)
                    if self._input.folds:
                        await fold(self._transcript, self._stop)
                if self._should_turn_over() and not self._stop.is_set:
                    return None
        return self._result(command)

    async def _carry_out(self, command: machine.Command) -> machine.Event:
        if isinstance(command, machine.RunCalls):
            # Also after a Stop: each call has a result then too, saying that it was not started.
            return await self._run_calls(command)
        await self._permit.regain()  # it has it, unless it begins without, or goes on after a reset
        if self._stop.is_set:
            return machine.Aborted()
        match command:
            case machine.Hold():
                self._phase = "held"
                released = await self._permit.hold(self._holder, command.why)
                return machine.Released() if released else machine.Aborted()
            case machine.HearRound():
                return await self._hear_round()
            case machine.Yield():
                return await self._yield()
            case machine.Compact(error=error):
                self._phase = "compact"
                return machine.Compacted(await self._compaction.run(self._input, error), error)
            case machine.Pause():
                self._phase = "retry"
                metering.count(metrics.MODEL_RETRIES, model=self._model)
                self._retry = Retry(at=workflow.now() + timedelta(seconds=command.seconds), why=command.why)
                await self._stop.pause(command.seconds, command.why)
                self._retry = None
        return await self._request()

    async def _request(self) -> machine.Event:
        self._phase = "model"
        if self._stop.is_set:
            return machine.Aborted()
        self._input = self._input.for_request(self._state)
        try:
            result = await self._stop.watch(
                workflow.start_activity(
                    MODEL_REQUEST,
                    self._model_input(),
                    result_type=RawValue,
                    **options.model_request(self._input.settings),
                )
            )
        except ActivityError as error:
            return ends.of_model_call(error, stopped=self._stop.is_set)
        answer = ends.read(result, ModelAnswer)
        self._model = answer.root.model if answer is not None else self._model
        return ends.of_model_answer(answer)

    def _model_input(self) -> ModelRequestInput:
        return ModelRequestInput(
            conversation_id=self._input.conversation_id,
            generation_id=workflow.info().workflow_id,
            run_start=self._input.start,
            cutoff=self._transcript.end,
            turn=self._state.turn,
            agent=self._input.settings.chosen,
            idle_timeout=self._input.settings.model_idle_timeout,
            heartbeat_timeout=self._input.settings.heartbeat_timeout,
            context_start=self._transcript.context_start or self._input.context_start,
            sizes=self._judged_sizes(),
            output=self._settings.output,
            tree=self._input.tree,
            first_run_id=workflow.info().original_execution_run_id,
        )

    def _judged_sizes(self) -> Thresholds | None:
        """What the next request is judged by; not after a compaction for it, nor when those before were fruitless."""
        judges = not self._state.compacted and self._state.fruitless < machine.FRUITLESS_LIMIT
        return self._settings.sizes if self._settings.compaction and judges else None

    async def _run_calls(self, command: machine.RunCalls) -> machine.Event:
        self._phase = "tools"
        round = Round(self._input, self._state.turn, command.calls, self._stop, self._mailbox, self._permit)
        for draft in await round.results(self._input.run):
            self._transcript.append(draft)
            if draft.tool is not None:
                self._state.spent = self._state.spent + draft.tool.spent
        await self._permit.regain()
        return machine.RoundEnded(None if self._stop.is_set else round.handoff)

    async def _hear_round(self) -> machine.Event:
        self._phase = "hooks"
        ends = await self._hook_outcomes("after_tools")
        return machine.Aborted() if self._stop.is_set else machine.RoundHeard(run_hooks.terminates(ends.outcomes))

    async def _yield(self) -> machine.Event:
        """An input of a person wins over a continuation: it gets a run of its own (spec §6.5)."""
        self._phase = "hooks"
        ends = await self._hook_outcomes("on_yield")
        if self._stop.is_set:
            return machine.Aborted()
        go_on = ends.go_on or run_hooks.continuation(ends.outcomes)
        if go_on is not None and (await self._mailbox.ask(only_look=True)).queued:
            self._note("A continuation gave way to an input that had come.")
            go_on = None
        return machine.Aborted() if self._stop.is_set else machine.Yielded(go_on)

    async def _hook_outcomes(self, moment: run_hooks.Moment) -> HookEnds:
        with spans.step(f"hooks {moment}"):
            answer = await hook_tasks.ask(self._told(moment), self._input.settings, self._stop)
            for problem in answer.problems:
                self._note(problem)
            found = await hook_tasks.outcomes(self._input, self._state.turn, answer.tasks, self._stop, self._permit)
        await self._permit.regain()
        for outcome in found:
            self._state.spent = self._state.spent + (outcome.spent if outcome else Ledger())
        return HookEnds(answer.go_on, found)

    def _told(self, moment: run_hooks.Moment) -> run_hooks.RunHookInput:
        text, results = run_hooks.last_round(self._transcript.tail)
        return run_hooks.RunHookInput(
            moment=moment,
            conversation_id=self._input.conversation_id,
            generation_id=workflow.info().workflow_id,
            turn=self._state.turn,
            agent=self._input.settings.chosen.without_instructions(),
            text=text,
            results=results,
        )

    async def _place_mail(self) -> bool:
        """Place steers and writes before the next request (spec §6.6); whether there is none, since a reset came."""
        if not self._mailbox.has_mail or self._stop.is_set:
            return False
        boundary = await self._mailbox.ask()
        # A conversation that was reset may hand over once more what stands here since before that.
        items = [item for item in boundary.items if item.request_id not in self._state.places]
        places = place_taken(self._transcript, items, self._input.run, self._input.context_start)
        self._state.places.update(places)
        self._state.placed += [item.request_id for item in items if item.write is None]
        self._mailbox.has_mail = self._mailbox.has_mail or boundary.queued > 0
        return any(is_reset(item) for item in items)

    async def _tell_large(self) -> None:
        if self._state.is_large and not self._state.has_told and not self._stop.is_set:
            self._state.has_told = True
            await tell_large(self._input.conversation_id, self._transcript.end)

    def _note(self, text: str) -> None:
        self._transcript.append(note_draft(text, workflow.now(), self._input.run))

    def _append(self, step: machine.Step, event: machine.Event) -> None:
        now = workflow.now()
        self._take_in(event)
        if step.message is not None:
            self._transcript.append(assistant_draft(step.message, now, self._input.run, self._model, _usage(event)))
        if step.summary is not None:
            self._transcript.append(self._compaction.draft(step.summary, now, self._input.run))
        if isinstance(event, machine.Compacted):
            for problem in event.answer.problems:
                self._note(problem)
        if step.note:
            self._note(step.note)
        if step.handoff is not None:
            self._transcript.append(reset_draft(now, self._input.run, self._transcript.end, step.handoff))

    def _take_in(self, event: machine.Event) -> None:
        """What came with a response and precedes it: problems, and what the request said of the prompt (spec §13.3)."""
        if isinstance(event, machine.Responded | machine.Failed):
            answer = event.turn if isinstance(event, machine.Responded) else event.failure
            for problem in answer.problems:
                self._note(problem)
        if isinstance(event, machine.Responded):
            for patch in event.turn.prompt:
                self._transcript.append(system_draft(patch, workflow.now(), self._input.run))

    def _should_turn_over(self) -> bool:
        info = workflow.info()
        events = info.get_current_history_length()
        return events > self._input.settings.turnover_events or info.is_continue_as_new_suggested()

    def _result(self, end: machine.Finish) -> RunResult:
        return RunResult(
            status=end.status,
            reason=end.reason,
            detail=end.detail,
            pages=tuple(self._transcript.pages),
            entries=tuple(self._transcript.tail),
            usage=self._state.usage,
            spent=self._state.spent,
            placed=tuple(self._state.placed),
            places=self._state.places,
            after_run=self._state.after_run,
            taken_up=self._state.taken_up,
            answer=self._answer_index() if end.status == "done" else None,
            is_large=self._state.is_large,
        )

    def _answer_index(self) -> int | None:
        """Of the newest response; notes may follow it. None: it is sealed, and was the last entry."""
        answers = [entry.index for entry in self._transcript.tail if entry.kind == "assistant"]
        return answers[-1] if answers else None

    @workflow.query(name=ENTRIES)
    def entries(self, query: EntriesQuery) -> Slice:
        """The newest entries before a place of this run (spec §6.1)."""
        try:
            return self._transcript.slice(query.upto, query.max_bytes)
        except NoSuchPosition as error:
            raise ApplicationError(str(error), type=INVALID) from error

    @workflow.query(name=VIEW)
    def view(self) -> GenerationView:
        """Where the run stands."""
        return GenerationView(
            generation_id=workflow.info().workflow_id,
            conversation_id=self._input.conversation_id,
            start=self._input.start,
            end=self._transcript.end,
            pages=tuple(self._transcript.pages),
            turn=self._state.turn,
            phase=self._phase,
            held=self._holder.why,
            usage=self._state.usage,
            spent=self._state.spent,
            placed=tuple(self._state.placed),
            places=self._state.places,
            retry=self._retry,
            compaction=self._compaction.view,
            after_run=self._state.after_run,
            taken_up=self._state.taken_up,
        )

    @workflow.update(name=RETRY)
    def retry(self) -> None:
        """Let a held model request be sent again (spec §4.4)."""
        self._holder.release()

    @retry.validator
    def _check_retry(self) -> None:
        if not self._holder.why:
            raise ApplicationError("nothing is held here", type=NOT_HELD)

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Temporal signals by name, from any shell; what is not known is ignored and harms nothing."""
        if name == RETRY:
            self._holder.release()
        elif name == ABORT:
            self._stop.set()
        elif name in permits.SIGNALS:
            self._permit.take(name, args)
        elif name == MAIL:
            self._mailbox.hear(read_signal(args, MailTold))
        elif name == CHOICES and (told := read_signal(args, ChoicesTold)) is not None:
            self._state.take_up(told, self._transcript.end.index)
        elif name == BOUNDARY and (boundary := read_signal(args, Boundary)) is not None:
            self._mailbox.take_in(boundary)


def _usage(event: machine.Event) -> Usage | None:
    """What a request cost, as far as its provider told."""
    match event:
        case machine.Responded():
            return event.turn.usage
        case machine.Failed():
            return event.failure.usage
        case _:
            return None
