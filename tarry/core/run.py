"""One run, from an admitted input to its answer: what to do after each thing that happens.

Pure. An event goes in, a `Step` comes out: entries to append and one command. Provider errors and
lost workers have budgets of their own (spec §4.4, §6.3); whatever can repeat has a bound.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from pydantic import BaseModel, Field

from tarry.core.budgets import CUT_LIMIT, EMPTY_LIMIT, INVALID_LIMIT, backoff
from tarry.core.choices import MAX_LOG, ChoicesTold
from tarry.core.compaction_protocol import NoSummary, Summary
from tarry.core.compaction_view import ContextFull
from tarry.core.ledger import Ledger
from tarry.core.messages import CUTTING_STOPS, AssistantMessage, Frozen, Usage
from tarry.core.output import correction
from tarry.core.protocol import ModelFailure, ModelTurn, ResolvedCall, RunSettings, RunStatus, UnansweredReason
from tarry.core.resolve import HookKind
from tarry.core.timelines import Timeline
from tarry.core.transcript import Position, Transcript

# These decide what a workflow does when it is replayed: change them only behind `workflow.patched`.
FRUITLESS_LIMIT = 3
"""Compactions in a row that made nothing smaller, after which a run sends its requests without another one."""


class RunState(BaseModel):
    """Counters of the run. `lost` counts workers lost in a row; a committed response resets it."""

    turn: int = 1
    failures: int = 0
    lost: int = 0
    empty: int = 0
    cut: int = 0
    invalid: int = 0
    usage: Usage = Usage()
    spent: Ledger = Ledger()
    after_tools: HookKind = ""
    handoff: str | None = None
    after_run: bool = Field(
        default=False, description="whether hooks are to be told of its end; True until it is known"
    )
    placed: list[str] = Field(default_factory=list, description="request ids of the steers that were placed")
    places: dict[str, int] = Field(default_factory=dict, description="of steers and writes: the entry, or `STALE`")
    has_mail: bool = False
    has_steer: bool = False
    boundaries: int = Field(default=0, description="that it has asked at; 0: none, or not counted yet")
    told: ChoicesTold | None = Field(default=None, description="choices for the next request")
    taken_up: dict[int, int] = Field(default_factory=dict, description="at which entries choices came, by their number")
    compacted: bool = Field(default=False, description="for the request that is due; a response resets it")
    fruitless: int = Field(default=0, description="compactions in a row that made nothing smaller")
    is_large: bool = Field(default=False, description="the context has grown so large that compaction is due")
    timeline: Timeline = Field(default_factory=Timeline)
    has_told: bool = Field(default=False, description="the conversation of that, once until it is not so any more")

    def take_up(self, told: ChoicesTold, entry: int) -> None:
        """New choices have come while the transcript had `entry` entries; older ones than known say nothing."""
        if self.told is None or told.number > self.told.number:
            self.told = told
            self.taken_up = dict([*self.taken_up.items(), (told.number, entry)][-MAX_LOG:])


class RunCarry(BaseModel):
    """What a long run takes over a turn of its workflow run."""

    state: RunState
    transcript: Transcript


class GenerationInput(Frozen):
    """`start` is the place in the conversation after the input this run answers."""

    conversation_id: str
    run: int
    start: Position
    settings: RunSettings
    carry: RunCarry | None = None
    context_start: Position | None = Field(default=None, description="named by the newest head marker before `start`")
    compacts: bool = Field(default=False, description="False: maybe begun before runs compacted their context")
    folds: bool = Field(default=False, description="False: maybe begun before runs folded references of their pages")
    tree: str = Field(default="", description="that the conversation is a subagent of; empty: a root")
    asks: bool = Field(default=False, description="False: its turn has a permit, or it was begun before runs asked")

    def for_request(self, state: RunState) -> GenerationInput:
        """With the choices that count for the next request, and for whatever comes of it (spec §7.6)."""
        told = state.told
        return self if told is None else self.model_copy(update={"settings": self.settings.for_agent(told.agent)})


@dataclass(frozen=True)
class Responded:
    """The model answered."""

    turn: ModelTurn


@dataclass(frozen=True)
class Failed:
    """The request brought no response."""

    failure: ModelFailure


@dataclass(frozen=True)
class Full:
    """The request was not sent: its context is too large."""

    full: ContextFull


@dataclass(frozen=True)
class Compacted:
    """A compaction that the next request waited for is over. `error` is the provider's, when that refused a request."""

    answer: Summary | NoSummary
    error: str = ""


@dataclass(frozen=True)
class WorkerLost:
    """The worker vanished in the middle of a request; `partial` is what it had published."""

    partial: str


@dataclass(frozen=True)
class WorkerStopped:
    """The worker gave the request back: it was shut down cleanly, or somebody took it from it, or `paused` it."""

    partial: str
    paused: bool = False


@dataclass(frozen=True)
class RoundEnded:
    """Every call of the response has its result; `handoff` when one of them asked for it."""

    handoff: str | None = None


@dataclass(frozen=True)
class RoundHeard:
    """The hooks after the round, and the tasks they returned, are done; whether one of them ends the run."""

    terminates: bool


@dataclass(frozen=True)
class Yielded:
    """The hooks before the answer stands, and their tasks, are done; an input that sends the agent back, or None."""

    go_on: str | None


@dataclass(frozen=True)
class Released:
    """Somebody asked to retry held work."""


@dataclass(frozen=True)
class Aborted:
    """The run was stopped. `partial` is what the model had streamed."""

    partial: str = ""


TurnEnd = RoundEnded | RoundHeard | Yielded
"""When the next request comes after it, steers are placed, pages sealed, runs turned over."""

Event = Responded | Failed | Full | Compacted | WorkerLost | WorkerStopped | TurnEnd | Released | Aborted


@dataclass(frozen=True)
class RequestModel:
    """Send the next request."""


@dataclass(frozen=True)
class Pause:
    """Wait durably, then request."""

    seconds: float
    why: str


@dataclass(frozen=True)
class Compact:
    """Compact the context before the next request. `error` is the provider's, when that refused the last one."""

    error: str = ""


@dataclass(frozen=True)
class RunCalls:
    """Run one round of tool calls."""

    calls: tuple[ResolvedCall, ...]


@dataclass(frozen=True)
class HearRound:
    """Ask the hooks after a round."""


@dataclass(frozen=True)
class Yield:
    """Ask the hooks whether the answer stands."""


@dataclass(frozen=True)
class Hold:
    """Do nothing until somebody asks to retry."""

    why: str


@dataclass(frozen=True)
class Finish:
    """End the run."""

    status: RunStatus
    reason: UnansweredReason = ""
    detail: str = ""


Command = RequestModel | Pause | Compact | RunCalls | HearRound | Yield | Hold | Finish


@dataclass(frozen=True)
class Step:
    """What to append, in order, and what to do then. `note` is for people only, `user` an input, `summary` a head.

    A `handoff` is all that the next run reads of what came before it.
    """

    command: Command
    message: AssistantMessage | None = None
    note: str = ""
    user: str = ""
    handoff: str | None = None
    summary: Summary | None = None


def advance(state: RunState, event: Event, settings: RunSettings) -> Step:
    """Take in `event`, update `state`, and say what comes next."""
    match event:
        case Responded():
            return _responded(state, event.turn, settings)
        case Failed():
            return _failed(state, event.failure, settings)
        case Full():
            state.compacted = True
            return Step(Compact())
        case Compacted():
            return _compacted(state, event.answer, event.error)
        case WorkerLost():
            return _lost(state, event.partial, settings)
        case WorkerStopped(partial=partial, paused=paused):
            return _held("its model request was paused", partial) if paused else Step(RequestModel(), _aborted(partial))
        case RoundEnded() | RoundHeard() | Yielded():
            return _hooked(state, event, settings)
        case Released():
            state.lost = 0
            return Step(RequestModel())
        case Aborted():
            return Step(Finish("unanswered", "aborted"), message=_aborted(event.partial))
        case _:
            assert_never(event)


def _hooked(state: RunState, event: TurnEnd, settings: RunSettings) -> Step:
    match event:
        case RoundEnded():
            state.handoff = event.handoff
            return Step(HearRound()) if state.after_tools else _after_round(state, settings)
        case RoundHeard():
            return _after_round(state, settings, terminates=event.terminates)
        case Yielded(go_on=None):
            return Step(Finish("done"))
        case Yielded():
            step = _next_turn(state, settings)
            # What nobody will read any more is no input.
            return step if isinstance(step.command, Finish) else replace(step, user=event.go_on or "")


def _after_round(state: RunState, settings: RunSettings, *, terminates: bool = False) -> Step:
    if terminates or state.handoff is not None:
        return Step(Finish("done"), handoff=state.handoff)
    return _next_turn(state, settings)


def _responded(state: RunState, turn: ModelTurn, settings: RunSettings) -> Step:
    state.failures = state.lost = 0
    state.compacted = False
    state.is_large = turn.is_large
    state.has_told = state.has_told and turn.is_large
    state.after_run = turn.after_run
    state.usage = state.usage + turn.usage
    if turn.model:
        state.spent = state.spent.with_request(turn.model, turn.usage)
    if turn.message.is_empty and turn.message.stop == "refusal":
        return Step(Finish("unanswered", "refused", "the model refused to answer"))
    if turn.message.is_empty:
        return _empty(state)
    state.empty = 0
    if not turn.calls:
        state.cut = 0
        if turn.invalid:
            return _invalid(state, turn, settings)
        state.invalid = 0
        return Step(Yield() if turn.on_yield else Finish("done"), message=turn.message)
    state.after_tools = turn.after_tools
    state.cut = state.cut + 1 if turn.message.stop in CUTTING_STOPS else 0
    return Step(RunCalls(turn.calls), message=turn.message)


def _invalid(state: RunState, turn: ModelTurn, settings: RunSettings) -> Step:
    state.invalid += 1
    if state.invalid > INVALID_LIMIT:
        return Step(Finish("unanswered", "invalid_output", turn.invalid), message=turn.message)
    step = replace(_next_turn(state, settings), message=turn.message)
    # What nobody will read any more is no input.
    return step if isinstance(step.command, Finish) else replace(step, user=correction(turn.invalid))


def _empty(state: RunState) -> Step:
    state.empty += 1
    if state.empty > EMPTY_LIMIT:
        return Step(Finish("unanswered", "empty_answer", f"the model answered with nothing {state.empty} times"))
    return Step(RequestModel(), note="The model answered with nothing and was asked again.")


def _failed(state: RunState, failure: ModelFailure, settings: RunSettings) -> Step:
    if failure.model or failure.error == "no_model":  # it came from where the hooks are known
        state.after_run = failure.after_run
    state.timeline.enter(failure.timeline)
    partial = _aborted(failure.partial)
    if failure.model:  # it was asked
        state.usage = state.usage + (failure.usage or Usage())
        state.spent = state.spent.with_request(failure.model, failure.usage)
    if failure.error == "aborted":
        return Step(Finish("unanswered", "aborted"), message=partial)
    if failure.error == "no_model":
        return Step(Finish("unanswered", "no_model", failure.text))
    if failure.error == "overflow" and settings.compaction and not state.compacted:
        state.compacted = True
        note = f"The context is too long for the model and is compacted: {failure.text}"
        return Step(Compact(failure.text), message=partial, note=note)
    if failure.error != "retryable" or state.failures >= settings.provider_retries:
        return Step(Finish("unanswered", "model_error", failure.text), message=partial)
    seconds = backoff(state.failures, failure.retry_after)
    state.failures += 1
    note = f"The model request failed and is sent again in {seconds:g} s: {failure.text}"
    return Step(Pause(seconds, failure.text), message=partial, note=note)


def _compacted(state: RunState, answer: Summary | NoSummary, error: str) -> Step:
    """The request is sent again, after an overflow only if it has become smaller (spec §11.5)."""
    state.usage = state.usage + answer.usage
    state.spent = state.spent + answer.spent
    if isinstance(answer, Summary):
        state.fruitless = 0
        return Step(RequestModel(), summary=answer)
    if answer.why == "aborted":
        return Step(Finish("unanswered", "aborted"))
    state.fruitless += 1
    if error:
        detail = f"{error}; the context could not be compacted ({answer.why}: {answer.detail})"
        return Step(Finish("unanswered", "model_error", detail))
    end = "" if state.fruitless < FRUITLESS_LIMIT else "; it is not tried again before a request is refused"
    return Step(RequestModel(), note=f"The context was not compacted ({answer.why}: {answer.detail}){end}.")


def _lost(state: RunState, partial: str, settings: RunSettings) -> Step:
    state.lost += 1
    if state.lost > settings.restart_limit:
        return _held(f"{state.lost} workers in a row were lost in this model request", partial)
    note = "The worker was lost in the middle of the model request, which is sent again."
    return Step(RequestModel(), message=_aborted(partial), note=note)


def _held(why: str, partial: str) -> Step:
    return Step(Hold(why), message=_aborted(partial), note=f"Held: {why}.")


def _next_turn(state: RunState, settings: RunSettings) -> Step:
    if state.cut > CUT_LIMIT:
        return Step(Finish("unanswered", "cut_off", f"{state.cut} responses in a row were cut off inside a call"))
    if state.turn >= settings.max_turns:
        return Step(Finish("unanswered", "max_turns", f"the run reached its bound of {settings.max_turns} turns"))
    state.turn += 1
    return Step(RequestModel())


def _aborted(partial: str) -> AssistantMessage | None:
    return AssistantMessage(text=partial, stop="aborted") if partial else None
