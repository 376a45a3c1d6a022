"""One task after its intent: when to run, park, wake, rerun, ask, hold, clean up or settle.

Pure. The replay rule lives here (spec §4.3): unsafe code never runs twice for one intent; safe code is
run again by Temporal, and held once its attempts are used up. A wake is a new intent (spec §4.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, assert_never

from signals.parking import Park, Wake
from tarry.core import results
from tarry.core.protocol import ResolvedCall, ToolOutcome
from tarry.core.task_state import State

# Both decide what a workflow does when it is replayed: change them only behind `workflow.patched`.
NOT_HERE_LIMIT = 5
NOT_HERE_PAUSE = 6.0
"""Seconds between two tries to find a worker that has the tool: 5 tries in 30 s (spec §1.4)."""


@dataclass(frozen=True)
class Ran:
    """The tool's code came to an end."""

    outcome: ToolOutcome


@dataclass(frozen=True)
class WorkerLost:
    """The worker vanished; every attempt the policy allows was used. `output` is what was published."""

    output: str


@dataclass(frozen=True)
class WorkerStopped:
    """The worker was shut down cleanly before the tool ended."""

    output: str


@dataclass(frozen=True)
class Reconciled:
    """The tool's reconcile hook was asked; None: it does not know."""

    outcome: ToolOutcome | None
    output: str


@dataclass(frozen=True)
class Parked:
    """The code asked to wait, and the wait is possible."""

    park: Park


@dataclass(frozen=True)
class Allowed:
    """Every hook let the call pass, with these arguments."""

    arguments: dict[str, Any]


@dataclass(frozen=True)
class Reasked:
    """The registry changed while the call waited before its intent."""


@dataclass(frozen=True)
class Moved:
    """The code ended one step and asks to be run for the next one."""

    checkpoint: Any


@dataclass(frozen=True)
class Woke:
    """The park ended; its key is consumed, or its keys are expired."""

    wake: Wake


@dataclass(frozen=True)
class Released:
    """Somebody asked to retry the held call."""


@dataclass(frozen=True)
class Aborted:
    """The task was stopped.

    `output` is what the run that was open had published, None when none had begun; `lost` is a park that the code
    asked for when the Stop was already there.
    """

    output: str | None = None
    lost: Park | None = None


Event = Ran | WorkerLost | WorkerStopped | Reconciled | Allowed | Reasked | Parked | Moved | Woke | Released | Aborted


@dataclass(frozen=True)
class Execute:
    """Schedule the tool, after a pause when no worker had it."""

    pause: float = 0.0


@dataclass(frozen=True)
class AskGates:
    """Ask the hooks, all of them and from the first, after a pause when no worker had the tool."""

    pause: float = 0.0


@dataclass(frozen=True)
class Reconcile:
    """Ask the tool whether the effect happened."""

    output: str


@dataclass(frozen=True)
class Hold:
    """Do nothing until somebody asks to retry."""

    why: str


@dataclass(frozen=True)
class Rest:
    """Run nothing until the park ends."""

    park: Park


@dataclass(frozen=True)
class Interrupt:
    """Settle as `interrupted`, with what was published. `cleanup`: why outside work could not be cleaned up."""

    output: str
    cleanup: str = ""


@dataclass(frozen=True)
class Abort:
    """Settle as `aborted`, with what was published; None: none of its code ran. `waited`: it was parked."""

    output: str | None = None
    waited: bool = False
    cleanup: str = ""


@dataclass(frozen=True)
class Settle:
    """End with what the code, or its reconcile hook, gave."""

    outcome: ToolOutcome


@dataclass(frozen=True)
class CleanUp:
    """Run the cancel hook, then settle, also when it fails: the result says why."""

    then: Interrupt | Abort | Settle


@dataclass(frozen=True)
class Unavailable:
    """Settle: no worker has the code."""


End = Interrupt | Abort | Settle | Unavailable
Command = AskGates | Execute | Reconcile | Hold | Rest | CleanUp | End


def resume(state: State) -> Command:
    """What a run of the workflow begins with."""
    if state.park is not None:
        return Rest(state.park)
    return AskGates() if state.phase == "call" else Execute()


def advance(state: State, event: Event, call: ResolvedCall) -> Command:
    """Take in `event`, update `state`, and say what comes next."""
    match event:
        case Ran():
            return _ran(state, event.outcome, call)
        case WorkerLost() | WorkerStopped():
            return _not_ended(state, event, call)
        case Reconciled():
            known = event.outcome
            return Settle(known) if known is not None else _settled_after(state, Interrupt(event.output), call)
        case Parked():
            return _parked(state, event.park)
        case Allowed() | Reasked() | Moved() | Woke():
            return _went_on(state, event)
        case Released():
            return _again(state)
        case Aborted():
            return _aborted(state, event, call)
        case _:
            assert_never(event)


def _went_on(state: State, event: Allowed | Reasked | Moved | Woke) -> Command:
    match event:
        case Allowed():
            state.phase, state.arguments, state.not_here = "execute", event.arguments, 0
            return Execute()
        case Reasked():
            state.park = None
            return AskGates()
        case Moved():
            state.checkpoint = event.checkpoint
            return _new_intent(state, None)
        case Woke():
            return _woke(state, event.wake)


def _woke(state: State, wake: Wake) -> Command:
    resumes = state.park is not None and state.park.resume
    state.park = None
    if state.phase == "call":
        return AskGates()  # from the top: every hook is asked again
    return _again(state) if resumes else _new_intent(state, wake)


def _parked(state: State, park: Park) -> Command:
    state.park = park
    if state.phase == "execute" and not park.resume:
        state.wake, state.checkpoint = None, park.checkpoint
    return Rest(park)


def _not_ended(state: State, event: WorkerLost | WorkerStopped, call: ResolvedCall) -> Command:
    if call.replay != "safe":
        return _cut_off(state, call, event.output)
    _keep_output(state, event.output)
    if isinstance(event, WorkerStopped):
        return _again(state)
    return Hold("every attempt at this tool was used up, the last one when its worker was lost")


def _new_intent(state: State, wake: Wake | None) -> Command:
    _next_run(state)
    state.intent, state.first_run = state.intent + 1, state.run
    state.wake = wake
    state.published, state.not_here = None, 0
    return Execute()


def _aborted(state: State, event: Aborted, call: ResolvedCall) -> Command:
    if event.output is not None:
        _keep_output(state, event.output)
    waited = state.park is not None or event.lost is not None
    if event.lost is not None:
        state.park, state.checkpoint = event.lost, event.lost.checkpoint
    # A woken run that was not entered had runs before it, whatever it says itself.
    output = "" if state.published is None and state.intent > 1 else state.published
    return _settled_after(state, Abort(output, waited), call)


def _settled_after(state: State, end: Interrupt | Abort | Settle, call: ResolvedCall) -> Command:
    if call.cancels == "never" or (call.cancels == "parked" and not state.has_parked):
        return end
    _next_run(state)  # memos of the hook count, those of a run that is still thought alive must not
    return CleanUp(end)


def after_clean_up(command: CleanUp, problem: str) -> End:
    """What to settle with once the hook was run; `problem` is empty when it succeeded."""
    if isinstance(command.then, Settle):
        return Settle(results.after_clean_up(command.then.outcome, problem))
    return replace(command.then, cleanup=problem)


def _ran(state: State, outcome: ToolOutcome, call: ResolvedCall) -> Command:
    if outcome.code in ("aborted", "interrupted"):  # the worker's own word for code that it stopped, or may not run
        return _settled_after(state, Settle(outcome), call)
    if outcome.code != "not_here":
        return Settle(outcome)
    if isinstance(outcome.facts.details, str):
        _keep_output(state, outcome.facts.details)
    if outcome.worker is not None:  # it has been moved by a deploy
        state.worker = outcome.worker
    state.not_here += 1
    if state.not_here > NOT_HERE_LIMIT:
        # Its cancel hook is gone with the tool.
        return Unavailable() if state.published is None else Interrupt(state.published)
    if state.published is not None:  # else nothing has run yet that another run could be told from
        _next_run(state)
    if state.phase == "call":
        return AskGates(NOT_HERE_PAUSE)
    # Where it was sent on it should be; when workers of two deploys disagree, they are given time.
    return Execute() if outcome.worker is not None and state.not_here == 1 else Execute(NOT_HERE_PAUSE)


def _cut_off(state: State, call: ResolvedCall, output: str) -> Command:
    if not call.reconciles:
        return _settled_after(state, Interrupt(output), call)
    # The hook's memos count; those of a worker that was only thought dead must not any more.
    _next_run(state)
    return Reconcile(output)


def _keep_output(state: State, output: str) -> None:
    state.published = output or state.published or ""


def _again(state: State) -> Command:
    _next_run(state)
    return Execute()


def _next_run(state: State) -> None:
    state.run += state.attempt
    state.attempt = 1


def is_stale(state: State, run: int, attempt: int) -> bool:
    """Whether a run's message comes from an attempt that was given up (spec §4.6)."""
    return (run, attempt) < (state.run, state.attempt)


def announce(state: State, run: int, attempt: int) -> bool:
    """A rerun takes over; False when it is itself stale."""
    if is_stale(state, run, attempt):
        return False
    state.run, state.attempt = run, attempt
    return True
