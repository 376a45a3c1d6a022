"""The loop around a task's machine, the same for a tool call and for a durable task of an application.

It runs, parks, wakes, cleans up and takes what the world delivers; its end is a result, also after a Stop. A
parked task continues as new when its history grows long, when nothing of it is open (spec §3.11).
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from datetime import datetime, timedelta
from typing import Any, NoReturn

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError
from temporalio.workflow import ActivityConfig, ActivityHandle

from signals.box import Box
from signals.parking import InvalidPark, Park, Sleep, Wait, Wake, park_on
from signals.parking import park as parked
from signals.tokens import SignalKey
from tarry.core import results
from tarry.core import task as machine
from tarry.core.decisions import Decided, decided, with_decision
from tarry.core.messages import Usage
from tarry.core.parked_note import in_words
from tarry.core.protocol import (
    Reconciliation,
    ResolvedCall,
    ToolRunInput,
    digest,
)
from tarry.core.task_state import Carry, State, TaskInput, ToolCallInput
from tarry.core.waiting import (
    CleanedUp,
    ParkedNote,
    ParkRequest,
    RunEnd,
    StepRequest,
)
from tarry.seeing import metrics
from workflows import ends, metering, patches, spans
from workflows.agents.permits import Leave
from workflows.supervise import Holder, StopSwitch, supervise
from workflows.task import watching
from workflows.task.children import Children
from workflows.task.port import Port
from workflows.task.resting import Rest, show_details, show_parked, show_running
from workflows.task.routing import show_worker, to_worker

MAX_QUIET_UPDATES = 1_000
"""Updates in one run after which a quiet task turns over. It decides on commands: change it only behind a patch."""

# Where a task that cannot turn over is ended: the server would terminate it at 51,200 events or 50 MiB, and takes
# 10,000 signals. All of them decide on commands: change them only behind a patch.
MAX_EVENTS = 40_000
MAX_HISTORY_BYTES = 40 * 1024 * 1024
MAX_SIGNALS = 8_000


class Loop(ABC):
    """One task from its first run to its end. Its kind says what a run, a clean-up and an outcome are."""

    def __init__(self, input: ToolCallInput | TaskInput) -> None:
        carry = input.carry
        self._state = carry.state if carry else State()
        self._box = carry.box if carry else Box()
        self._started: datetime = carry.started if carry else workflow.info().workflow_start_time
        self._shown = self._state.park
        self._policy = input.call
        self._settings = input.settings
        self._tree = input.tree
        self._stop = StopSwitch()
        self._holder = Holder(self._stop)
        self._port = Port(self._box, self._state, self._stop)
        self._children = Children(self._state, input)
        self._leave = Leave(input.permit_of, self._state, self._stop)
        self._ran_too_long = False
        self._told = 0

    @abstractmethod
    def _start_run(self) -> ActivityHandle[RawValue]: ...

    def _start_reconcile(self) -> ActivityHandle[RawValue]:
        """Only for a kind whose policy reconciles."""
        raise AssertionError("nothing to ask")

    @abstractmethod
    def _start_clean_up(self) -> ActivityHandle[RawValue]: ...

    @abstractmethod
    def _note(self, park: Park) -> ParkedNote: ...

    async def drive(self) -> machine.End | None:
        """Run to the end; None when the workflow should continue as new."""
        self._serving = asyncio.ensure_future(self._port.serve())
        self._telling = asyncio.ensure_future(self._leave.serve())
        self._limiting = asyncio.ensure_future(self._end_in_time())
        end = await supervise(self._body(), self._stop.set)
        # A Stop, a delivery, or a new child in the very task that turns over.
        while end is None and (self._stop.is_set or not self._port.is_quiet or not self._children.are_over):
            end = await supervise(self._body(), self._stop.set)
        return end

    async def _end_in_time(self) -> None:
        """A task that cannot turn over settles before the server would end it by force (spec §1.5)."""
        await workflow.wait_condition(self._is_too_long)
        self._ran_too_long = True
        self._stop.set()

    def _is_too_long(self) -> bool:
        info = workflow.info()
        is_long = info.get_current_history_length() > MAX_EVENTS or info.get_current_history_size() > MAX_HISTORY_BYTES
        return is_long or self._port.signals > MAX_SIGNALS

    def carried(self) -> Carry:
        """What the next run begins with."""
        return Carry(state=self._state, box=self._box, started=self._started)

    def turn_over(self, input: Any) -> NoReturn:
        """Continue as new with `input`; lists go on showing what they show."""
        memo = dict(workflow.memo())
        workflow.continue_as_new(input, memo=memo, search_attributes=workflow.info().typed_search_attributes)

    async def _body(self) -> machine.End | None:
        command: machine.Command = machine.resume(self._state)
        while True:
            match command:
                case machine.AskGates():
                    event: machine.Event = await self._ask_gates(command.pause)
                case machine.Execute():
                    event = await self._execute(command.pause)
                case machine.Reconcile():
                    event = await self._reconcile(command.output)
                case machine.Hold():
                    self._leave.rest(lambda: not self._holder.why, "somebody who retries it")
                    with spans.wait("held"):
                        released = await self._holder.hold(command.why)
                    event = machine.Released() if released else machine.Aborted()
                case machine.Rest():
                    ended = await self._rest(command.park)
                    if ended is None:
                        return None
                    event = ended
                case machine.CleanUp():
                    return await self._finished(await self._clean_up(command))
                case _:
                    return await self._finished(command)
            command = machine.advance(self._state, event, self._policy)
            await self._leave.go_on()
            if isinstance(event, machine.Moved) and self._should_turn_over():
                return None

    async def _finished(self, end: machine.End) -> machine.End:
        """What it created is stopped, and everything that was delivered gets its receipt, before the end."""
        self._port.close()
        await self._children.settle(self._stop.deadline)
        await watching.tell(self._state.watchers, failed=_is_failure(end))
        self._told = len(self._state.watchers)
        await workflow.wait_condition(lambda: self._port.is_quiet)
        return end

    async def tell_late(self, end: machine.End) -> None:
        """Tell who came to watch since the others were told; the last thing that a task does."""
        while (late := self._state.watchers[self._told :]) and patches.LATE_WATCHERS.is_passed():
            self._told += len(late)
            await watching.tell(late, failed=_is_failure(end))

    async def _ask_gates(self, pause: float) -> machine.Event:
        """Only for a kind that has hooks before its intent."""
        raise AssertionError("nobody to ask")

    async def _execute(self, pause: float) -> machine.Event:
        if pause:
            await self._stop.pause(pause, "no worker has the tool; looking again")
        if self._stop.is_set:
            return machine.Aborted()
        try:
            result = await self._stop.watch(self._start_run())
        except ActivityError as error:
            return self._ended(error)
        end = ends.read(result, RunEnd)
        if end is None:
            return machine.Ran(results.lost(self._policy.tool))
        self._spend(end.root.usage)
        match end.root:
            case ParkRequest():
                return self._parked(end.root)
            case StepRequest():
                return machine.Moved(end.root.checkpoint)
            case _:
                self._follow(end.root.worker)
                return machine.Ran(end.root)

    def routed(self, config: ActivityConfig) -> ActivityConfig:
        """An activity that runs code of the task, for the worker that has it."""
        return to_worker(config, self._worker)

    @property
    def _worker(self) -> str:
        return self._policy.worker if self._state.worker is None else self._state.worker

    def _follow(self, worker: str | None) -> None:
        if worker is not None and worker != self._worker:
            show_worker(worker)

    def _parked(self, wanted: ParkRequest) -> machine.Event:
        try:
            park = self._park(wanted)
        except InvalidPark as error:
            return machine.Ran(results.invalid_park(self._policy.tool, str(error)))
        return machine.Aborted("", lost=park) if self._stop.is_set else machine.Parked(park)

    def _park(self, wanted: ParkRequest) -> Park:
        if wanted.on:
            self._check_others(wanted)
            waited = park_on(Wait(wanted.on, wanted.policy, wanted.checkpoint), workflow.now())
            return waited.model_copy(update={"resume": wanted.resume})
        sleep = Sleep(checkpoint=wanted.checkpoint, until=wanted.until, signals=wanted.keys, ask=wanted.ask)
        return parked(sleep, self._box, workflow.now())

    def _check_others(self, wanted: ParkRequest) -> None:
        own = workflow.info().workflow_id
        for task_id in wanted.on:
            if own == task_id or own.startswith(f"{task_id}/"):
                raise InvalidPark(f"{task_id} is this task or awaits it: it would wait for ever")
            if wanted.policy != "all_settled" and not self._state.is_child(task_id):
                raise InvalidPark(f"{task_id} is no child of this task: wait for it with all_settled")

    def _spend(self, usage: Usage | None) -> None:
        self._state.spent = self._state.spent.with_tool(self._policy.tool, usage)

    def _ended(self, error: ActivityError) -> machine.Event:
        self._spend(ends.reported(error))
        if self._stop.is_set:
            return machine.Aborted(ends.published(error) if self._had_begun(error) else None)
        if ends.is_worker_lost(error):
            metering.count(metrics.WORKERS_LOST, kind=metering.kind())
        if ends.is_worker_lost(error) or ends.is_too_long(error):
            return machine.WorkerLost(ends.published(error))
        if ends.is_given_back(error):
            return machine.WorkerStopped(ends.published(error))
        if ends.is_keyless(error):
            return machine.Ran(results.not_here(self._policy.tool))
        return machine.Ran(results.tool_error(self._policy.tool, error.cause or error))

    def _had_begun(self, error: ActivityError) -> bool:
        # Between two attempts at a safe tool the server tells of none that was started.
        return error.started_event_id > 0 or self._policy.replay == "safe"

    async def _reconcile(self, output: str) -> machine.Event:
        if self._stop.is_set:
            return machine.Reconciled(None, output)
        try:
            answer = await self._stop.watch(self._start_reconcile())
        except ActivityError:
            return machine.Reconciled(None, output)
        return machine.Reconciled((ends.read(answer, Reconciliation) or Reconciliation()).outcome, output)

    async def _rest(self, park: Park) -> machine.Event | None:
        note = self._note(park)
        if self._shown != park:
            show_parked(park, note, self._shown_as(park), self._state.asked_under)
            self._shown = park
            metering.parked(self._shown_as(park))
        show_details(park, note)
        await watching.watch(self._state, park.on)
        rest = Rest(park, self._box, self._state, self._port, self._stop, self._should_turn_over)
        self._leave.rest(rest.is_due, in_words(park, note))
        with spans.wait(self._shown_as(park)) as span:
            reason = await rest.ended()
            why = self._why_it_ended(reason)
            span.set_attribute(spans.WAKE, why)
        metering.woke(park, reason, why, workflow.now())
        if self._stop.is_set:
            return machine.Aborted()
        if reason is None and not self._state.reask:
            return None
        self._shown = None
        show_running(self._decided(note, reason))
        return machine.Reasked() if reason is None else machine.Woke(reason)

    def _why_it_ended(self, reason: Wake | None) -> str:
        if self._stop.is_set:
            return "stop"
        if reason is not None:
            return reason.reason
        return "registry" if self._state.reask else "continued"

    def _decided(self, note: ParkedNote, reason: Wake | None) -> tuple[Decided, ...]:
        """What people decided so far, where one of them has just ended a park; else nothing."""
        if reason is None or reason.reason != "signal":
            return ()
        key = SignalKey(reason.signal, reason.key)
        stored = self._box.state(key).stored
        new = decided(note, key, stored) if stored is not None else None
        # Deliveries of gateways that were newer than its worker may have ended parks before.
        if new is None or not patches.DECIDED.is_passed():
            return ()
        self._state.decided = with_decision(self._state.decided, new)
        return self._state.decided

    def _shown_as(self, park: Park) -> str:
        if self._state.phase == "call":
            return "gated"
        return "waiting" if park.on else "sleeping"

    def _should_turn_over(self) -> bool:
        info = workflow.info()
        is_long = info.get_current_history_length() > self._settings.turnover_events
        is_long = is_long or info.is_continue_as_new_suggested() or self._port.updates > MAX_QUIET_UPDATES
        # The server takes the turn of a run for its end, and cancels the children that still live.
        return is_long and self._children.are_over

    def _time_left(self) -> timedelta:
        """For cleaning up."""
        return self._stop.deadline() - workflow.now()

    async def _clean_up(self, command: machine.CleanUp) -> machine.End:
        """Bottom-up, and not watched for a Stop: cleaning up is what a Stop asks for."""
        await self._children.settle(self._stop.deadline)
        if self._shown is not None:  # or lists would say that nothing runs, while the hook does
            self._shown = None
            show_running()
        try:
            answer = ends.read(await self._start_clean_up(), CleanedUp)
            problem = answer.problem if answer else "its hook ended without an answer"
        except ActivityError as error:
            problem = ends.cleanup_problem(error)
        return machine.after_clean_up(command, problem)

    @property
    def _call(self) -> ResolvedCall:
        """The call with the arguments that its hooks let pass."""
        if self._state.arguments is None:
            return self._policy
        return self._policy.model_copy(update={"arguments": self._state.arguments})

    def _intent(self, conversation_id: str, *, nested: bool = False) -> ToolRunInput:
        """What is about to run, in history before it runs (spec §4.1)."""
        task_id, state = workflow.info().workflow_id, self._state
        return ToolRunInput(
            conversation_id=conversation_id,
            task_id=task_id,
            call=self._call,
            run=state.run,
            # A wake is a new intent, with a key of its own.
            idempotency_key=digest(task_id if state.intent == 1 else f"{task_id}/i{state.intent}"),
            heartbeat_timeout=self._settings.heartbeat_timeout,
            published=state.published or "",
            first_run_id=workflow.info().original_execution_run_id,
            first_run=state.first_run,
            wake=state.wake,
            checkpoint=state.checkpoint,
            nested=nested,
            agent=self._settings.chosen,
            tree=self._tree,
        )


def _is_failure(end: machine.End) -> bool:
    return not isinstance(end, machine.Settle) or end.outcome.is_error
