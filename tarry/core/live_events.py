"""What happens in a conversation, one event each, in the words of coding agents.

Pure. `applied` gives the view after an event: nothing that a view holds changes without one (spec §7.9).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar

from pydantic import Field, TypeAdapter

from tarry.core.agent import Agent
from tarry.core.compaction_view import CompactionView
from tarry.core.glances import InboxItem, Retry
from tarry.core.ledger import Ledger
from tarry.core.live import (
    MAX_SETTLED,
    CallStatus,
    Contact,
    LiveCall,
    LiveMessage,
    LiveRun,
    LiveView,
    Question,
    window,
)
from tarry.core.messages import Frozen, Usage
from tarry.core.protocol import SubmissionView
from tarry.core.transcript import Entry, PageRef, Position
from tarry.core.views import Refusal

F = TypeVar("F", bound=Frozen)


class Snapshot(Frozen):
    """Everything at once: the first event, and whenever what happened in between is not known or too much."""

    type: Literal["snapshot"] = "snapshot"
    view: LiveView


class RunStart(Frozen):
    """A run began; `inputs` are the request ids of what it answers."""

    type: Literal["run_start"] = "run_start"
    generation_id: str
    inputs: tuple[str, ...] = ()


class RunEnd(Frozen):
    """The run is over; how is told by the `submission` events that follow."""

    type: Literal["run_end"] = "run_end"
    generation_id: str


class RunUpdate(Frozen):
    """What the run is doing now, why it is held, or what else it answers."""

    type: Literal["run_update"] = "run_update"
    phase: str
    held: str
    inputs: tuple[str, ...]


class TurnStart(Frozen):
    """A turn began: one response of the model and its tool calls."""

    type: Literal["turn_start"] = "turn_start"
    turn: int


class TurnEnd(Frozen):
    """The turn is over."""

    type: Literal["turn_end"] = "turn_end"
    turn: int


class MessageStart(Frozen):
    """The model was asked."""

    type: Literal["message_start"] = "message_start"
    message_id: str


class MessageUpdate(Frozen):
    """The model said more: `delta` follows the first `at` characters. Nobody keeps what comes before `offset`."""

    type: Literal["message_update"] = "message_update"
    message_id: str
    at: int
    delta: str
    offset: int


class MessageEnd(Frozen):
    """The response is over: it is the next entry, `entry`, or was cut off and left none."""

    type: Literal["message_end"] = "message_end"
    message_id: str
    entry: int | None = None


class ToolStart(Frozen):
    """A tool call was made."""

    type: Literal["tool_execution_start"] = "tool_execution_start"
    call: LiveCall


class ToolUpdate(Frozen):
    """A call published more, `delta` after the first `at` characters, or stands otherwise than before."""

    type: Literal["tool_execution_update"] = "tool_execution_update"
    slot: int
    task_id: str
    status: CallStatus
    since: datetime | None
    label: str
    at: int
    delta: str
    offset: int


class ToolEnd(Frozen):
    """A call is over: its result is the next entry, `entry`, or was not seen."""

    type: Literal["tool_execution_end"] = "tool_execution_end"
    slot: int
    task_id: str
    entry: int | None = None
    is_error: bool = False
    code: str = ""


class RetryStart(Frozen):
    """The model request failed and is sent again."""

    type: Literal["auto_retry_start"] = "auto_retry_start"
    retry: Retry


class RetryEnd(Frozen):
    """It is sent again now, or not any more."""

    type: Literal["auto_retry_end"] = "auto_retry_end"


class EntryAppended(Frozen):
    """The transcript has one more entry."""

    type: Literal["entry_appended"] = "entry_appended"
    entry: Entry


class TaskFailed(Frozen):
    """A run or a call was lost: its workflow was ended by force."""

    type: Literal["task_failed"] = "task_failed"
    task_id: str
    detail: str = ""


class SubmissionEvent(Frozen):
    """A submission is queued, placed, or has ended."""

    type: Literal["submission"] = "submission"
    submission: SubmissionView


class InboxUpdate(Frozen):
    """What waits in the inbox now, and what the open run answers; `refusals` are of inputs by Temporal signal."""

    type: Literal["inbox_update"] = "inbox_update"
    queued: tuple[str, ...]
    inbox: tuple[InboxItem, ...]
    placed: tuple[str, ...]
    refusals: tuple[Refusal, ...]


class AgentChanged(Frozen):
    """What the conversation has chosen: model, tools and so on."""

    type: Literal["agent_changed"] = "agent_changed"
    agent: Agent


class UsageChanged(Frozen):
    """What the conversation has spent, in all and by model and tool: runs that are over."""

    type: Literal["usage_changed"] = "usage_changed"
    usage: Usage
    spent: Ledger = Ledger()


class CompactionStart(Frozen):
    """A compaction was asked for."""

    type: Literal["compaction_start"] = "compaction_start"
    compaction: CompactionView


class CompactionEnd(Frozen):
    """A compaction is over."""

    type: Literal["compaction_end"] = "compaction_end"
    compaction: CompactionView


class CompactionsChanged(Frozen):
    """Where the open compactions stand, and the newest of the others."""

    type: Literal["compactions_changed"] = "compactions_changed"
    compactions: tuple[CompactionView, ...]


class QuestionsChanged(Frozen):
    """Which questions are open."""

    type: Literal["questions_changed"] = "questions_changed"
    questions: tuple[Question, ...]


class ContactChanged(Frozen):
    """Whether workers, and the server, answer."""

    type: Literal["contact_changed"] = "contact_changed"
    contact: Contact


class RecordChanged(Frozen):
    """How far the conversation itself has its transcript, which an open run goes on; and its tree of agents."""

    type: Literal["record_changed"] = "record_changed"
    end: Position
    pages: tuple[PageRef, ...]
    runs: int
    documents: int
    tree: str = ""


FACTS = (
    InboxUpdate,
    CompactionsChanged,
    QuestionsChanged,
    AgentChanged,
    UsageChanged,
    RecordChanged,
    ContactChanged,
)
"""Events that hold fields of a view as they are now; in the order in which they are told."""

Event = Annotated[
    Snapshot
    | RunStart
    | RunEnd
    | RunUpdate
    | TurnStart
    | TurnEnd
    | MessageStart
    | MessageUpdate
    | MessageEnd
    | ToolStart
    | ToolUpdate
    | ToolEnd
    | RetryStart
    | RetryEnd
    | EntryAppended
    | TaskFailed
    | SubmissionEvent
    | InboxUpdate
    | CompactionStart
    | CompactionEnd
    | CompactionsChanged
    | AgentChanged
    | UsageChanged
    | QuestionsChanged
    | ContactChanged
    | RecordChanged,
    Field(discriminator="type"),
]
EVENTS: TypeAdapter[Event] = TypeAdapter(Event)
"""Reads and writes events as JSON."""


def applied(view: LiveView, event: Event) -> LiveView:
    """The view after `event`. One that does not fit the view changes nothing."""
    match event:
        case Snapshot():
            return event.view
        case RunStart():
            run = LiveRun(generation_id=event.generation_id, inputs=event.inputs)
            return _with(view, run=run, open_generation=event.generation_id)
        case RunEnd():
            return _with(view, run=None, open_generation=None)
        case EntryAppended():
            return _with(view, entries=window([*view.entries, event.entry]))
        case SubmissionEvent() if event.submission.status in ("done", "unanswered"):
            return _with(view, settled=(*view.settled, event.submission)[-MAX_SETTLED:])
    if isinstance(event, FACTS):
        return _with(view, **_fields(event))
    return view if view.run is None else _with(view, run=_run(view.run, event))


def _run(run: LiveRun, event: Event) -> LiveRun:
    match event:
        case RunUpdate():
            return _with(run, **_fields(event))
        case TurnStart():
            return _with(run, turn=event.turn)
        case RetryStart():
            return _with(run, retry=event.retry)
        case RetryEnd():
            return _with(run, retry=None)
        case MessageStart() | MessageUpdate() | MessageEnd():
            return _with(run, message=_message(run.message, event))
        case ToolStart() | ToolUpdate() | ToolEnd():
            return _with(run, calls=tuple(_calls(run.calls, event)))
    return run


def _message(message: LiveMessage | None, event: MessageStart | MessageUpdate | MessageEnd) -> LiveMessage | None:
    match event:
        case MessageStart():
            return LiveMessage(id=event.message_id)
        case MessageUpdate() if message is not None and message.id == event.message_id:
            return _with(message, text=message.text.with_delta(event.at, event.delta, event.offset))
        case MessageEnd():
            return None
    return message


def _calls(calls: Sequence[LiveCall], event: ToolStart | ToolUpdate | ToolEnd) -> list[LiveCall]:
    match event:
        case ToolStart():
            return sorted([*calls, event.call], key=lambda call: call.slot)
        case ToolUpdate():
            return [_call(call, event) for call in calls]
        case ToolEnd():
            return [call for call in calls if call.slot != event.slot]


def _call(call: LiveCall, event: ToolUpdate) -> LiveCall:
    if call.slot != event.slot:
        return call
    output = call.output.with_delta(event.at, event.delta, event.offset)
    facts = {"task_id": event.task_id, "status": event.status, "since": event.since, "label": event.label}
    return _with(call, output=output, **facts)


def _fields(event: Frozen) -> dict[str, Any]:
    return {name: value for name, value in event if name != "type"}


def _with(value: F, **changes: Any) -> F:
    return value.model_copy(update=changes)
