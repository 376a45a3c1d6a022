"""One tool call after its intent: when to run, rerun, ask, hold or settle.

Pure. The replay rule lives here (spec §4.3): an unsafe tool never runs a second time; a safe one is
run again by Temporal, and held once its attempts are used up.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from pydantic import BaseModel

from tarry.core.protocol import ResolvedCall, ToolOutcome

# Both decide what a workflow does when it is replayed: change them only behind `workflow.patched`.
NOT_HERE_LIMIT = 5
NOT_HERE_PAUSE = 6.0
"""Seconds between two tries to find a worker that has the tool: 5 tries in 30 s (spec §1.4)."""


class CallState(BaseModel):
    """Where the runs stand, over every time the one intent was scheduled.

    `run` is the number of the first run of the newest scheduling; `attempt` counts within it, and is the newest that
    announced itself. `published` is what runs that were cut off had published, None while none was.
    """

    run: int = 1
    attempt: int = 1
    not_here: int = 0
    published: str | None = None


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
class Released:
    """Somebody asked to retry the held call."""


@dataclass(frozen=True)
class Aborted:
    """The call was stopped. `output` is what the run that was open had published; None: none had begun."""

    output: str | None = None


Event = Ran | WorkerLost | WorkerStopped | Reconciled | Released | Aborted


@dataclass(frozen=True)
class Execute:
    """Schedule the tool, after a pause when no worker had it."""

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
class Interrupt:
    """Settle as `interrupted`, with what was published."""

    output: str


@dataclass(frozen=True)
class Abort:
    """Settle as `aborted`, with what was published; None: none of its code ran."""

    output: str | None = None


@dataclass(frozen=True)
class Settle:
    """End with what the tool, or its reconcile hook, gave."""

    outcome: ToolOutcome


@dataclass(frozen=True)
class Unavailable:
    """Settle: no worker has the tool."""


Command = Execute | Reconcile | Hold | Interrupt | Abort | Settle | Unavailable


def advance(state: CallState, event: Event, call: ResolvedCall) -> Command:
    """Take in `event`, update `state`, and say what comes next."""
    match event:
        case Ran():
            return _ran(state, event.outcome)
        case WorkerLost():
            if call.replay == "safe":
                _keep_output(state, event.output)
                return Hold("every attempt at this tool was used up, the last one when its worker was lost")
            return _cut_off(state, call, event.output)
        case WorkerStopped():
            if call.replay == "safe":
                _keep_output(state, event.output)
                return _again(state)
            return _cut_off(state, call, event.output)
        case Reconciled():
            return Settle(event.outcome) if event.outcome is not None else Interrupt(event.output)
        case Released():
            return _again(state)
        case Aborted():
            if event.output is not None:
                _keep_output(state, event.output)
            return Abort(state.published)
        case _:
            assert_never(event)


def _ran(state: CallState, outcome: ToolOutcome) -> Command:
    if outcome.code != "not_here":
        return Settle(outcome)
    if isinstance(outcome.facts.details, str):
        _keep_output(state, outcome.facts.details)
    state.not_here += 1
    if state.not_here > NOT_HERE_LIMIT:
        return Unavailable() if state.published is None else Interrupt(state.published)
    if state.published is not None:  # else nothing has run yet that another run could be told from
        _next_run(state)
    return Execute(pause=NOT_HERE_PAUSE)


def _cut_off(state: CallState, call: ResolvedCall, output: str) -> Command:
    if not call.reconciles:
        return Interrupt(output)
    # The hook's memos count; those of a worker that was only thought dead must not any more.
    _next_run(state)
    return Reconcile(output)


def _keep_output(state: CallState, output: str) -> None:
    state.published = output or state.published or ""


def _again(state: CallState) -> Command:
    _next_run(state)
    return Execute()


def _next_run(state: CallState) -> None:
    state.run += state.attempt
    state.attempt = 1


def is_stale(state: CallState, run: int, attempt: int) -> bool:
    """Whether a run's message comes from an attempt that was given up (spec §4.6)."""
    return (run, attempt) < (state.run, state.attempt)


def announce(state: CallState, run: int, attempt: int) -> bool:
    """A rerun takes over; False when it is itself stale."""
    if is_stale(state, run, attempt):
        return False
    state.run, state.attempt = run, attempt
    return True
