"""Names and payloads of a tree of agents: `tarry.agents`, one workflow a root conversation (spec §17).

Pure. Whoever asks names itself by its conversation and its call: the call's task id makes a repeat recognisable, so a
rerun, a reset or a second delivery changes nothing and is answered as the first was.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import BaseModel, Field, model_validator

from signals.tokens import Signal
from tarry.core.agent import Agent
from tarry.core.ledger import Ledger
from tarry.core.messages import Frozen
from tarry.core.protocol import UnansweredReason
from tarry.core.subagents.definition import RuntimeMode, Snapshot

AGENTS = "tarry.agents"
"""The workflow, `<root conversation>~<nonce>/agents`."""

START = "tarry.agents.start"
"""Update: a `StartAgent`; returns a `Started`."""
SEND = "tarry.agents.send"
"""Update: a `SendMessage`; returns a `Sent`."""
FOLLOW_UP = "tarry.agents.follow-up"
"""Update: a `FollowUp`; returns a `TurnAccepted`."""
READ = "tarry.agents.read"
"""Update: a `ReadUpdates`; returns an `Updates`."""
INTERRUPT = "tarry.agents.interrupt"
"""Update: an `Interrupt`; returns an `Interrupted`."""
RELOAD = "tarry.agents.reload"
"""Update, or plain signal: a `Snapshot` that counts from now on."""

READ_DONE = "tarry.agents.read-done"
"""Plain signal: a `ReadDone`: what a call read is in the history of its call."""
RESTED = "tarry.agents.rested"
"""Plain signal: a `TurnNotice`: nothing of the turn executes, its permit is free."""
WANTS = "tarry.agents.wants"
"""Plain signal: a `TurnNotice`: something of the turn was woken, and waits for a permit."""
GRANTED = "tarry.agents.granted"
"""Plain signal to the run of that turn: a `TurnNotice`, in answer to `WANTS`."""
STOPPED = "tarry.agents.stopped"
"""Plain signal: a `StopBelow`: a conversation was stopped, and everything below it is."""
REPORTED = "tarry.agents.reported"
"""Plain signal: a `Reported`: a report is in the conversation of the parent."""
COLLECT = "tarry.agents.collect"
"""Plain signal, without an input: the root conversation is over; stop and end all that was below it, and end."""

AGENT_ID = "agent-"
"""What the id of an agent, which is that of its conversation, begins with."""
PATH_MEMO = "tarry.path"
"""The memo by which the conversation of an agent names its path."""
TREE_MEMO = "tarry.tree"
"""The memo by which it names its tree."""

LIST = "tarry.agents.list"
"""Query: the id of a conversation, empty for the root; returns an `AgentList` of everything below it."""
SNAPSHOT = "tarry.agents.snapshot"
"""Query: the `Snapshot`."""

REFUSED = "tarry.agents.refused"
"""Type of the ApplicationError of a refusal; its details are a `Refusal`."""

RefusalCode = Literal[
    "unknown_agent",  # no such definition in the catalogue
    "unknown_target",  # nothing has that path or id
    "not_a_child",  # it is there, and not this one's to write to
    "not_a_descendant",
    "name_taken",
    "bad_name",
    "too_deep",
    "too_many_agents",
    "capacity",  # nested work while no permit is free
    "mailbox_full",
    "message_too_large",
    "mailbox_empty",  # a follow-up without anything to say
    "stopped",  # the caller's run was stopped
    "foreground",  # not with this runtime mode
    "conflict",  # the call asked for something else before
    "corrupt",
    "invalid",
]


class Refusal(Frozen):
    """Why something was not done; `text` says what to do instead."""

    code: RefusalCode
    text: str


def run_number(task_id: str) -> int:
    """The number of a run in its conversation, by its id or that of a call in it; 0: the id names none."""
    run = [*task_id.split("/"), ""][1].partition("~")[0]
    number = run.removeprefix("g")
    return int(number) if run != number and number.isascii() and number.isdigit() else 0


def is_joined(agent_id: str, request_id: str) -> bool:
    """Whether a tree submitted this to an agent for a turn that was open, and not to begin one."""
    turn, _, number = request_id.removeprefix(f"{agent_id}.").partition(".")
    return request_id.startswith(f"{agent_id}.") and turn.isdecimal() and number.isdecimal()


class Caller(Frozen):
    """Who asks: the call, whose id is the request's, and the conversation in which it was made.

    A task id that names no run is a person's, or a program's: any that it never uses for another request.
    """

    conversation_id: str
    task_id: str

    @property
    def generation_id(self) -> str:
        """The run that the call is part of; of a person or a program, none."""
        return "/".join(self.task_id.split("/")[:2])

    @property
    def run(self) -> int:
        """The number of that run; 0: a person or a program asks."""
        return run_number(self.task_id)


ContextMode = Literal["fresh", "all_completed", "last_n_completed"]


class ContextPolicy(Frozen):
    """What a child knows of its parent's conversation."""

    mode: ContextMode = "fresh"
    completed_turns: int | None = Field(default=None, ge=1, le=100, description="of `last_n_completed`")

    @model_validator(mode="after")
    def _check_number(self) -> Self:
        if (self.mode == "last_n_completed") != (self.completed_turns is not None):
            raise ValueError("`completed_turns` belongs to the mode `last_n_completed`, which needs it")
        return self


class Text(Frozen):
    """A text, itself when it is short, else where it is kept."""

    text: str = ""
    blob: str = Field(default="", description="reference in the store; empty: `text` is all")
    characters: int
    utf8_bytes: int


class StartAgent(Frozen):
    """Start a child of the caller with its first turn."""

    caller: Caller
    definition: str
    description: str = ""
    task_name: str | None = Field(default=None, description="the last part of its path; None: made of the description")
    prompt: Text
    context: ContextPolicy = ContextPolicy()
    output: dict[str, Any] | None = Field(default=None, description="JSON Schema of its answer; None: text")
    mode: RuntimeMode | None = Field(default=None, description="None: that of the tree")
    agent: Agent = Field(default=Agent(), description="what the child's conversation begins with")
    key: str = Field(default="", description="under which the call is told that the turn has ended; empty: it is not")


class Started(Frozen):
    """A child that is there for good: its conversation may not have begun yet."""

    path: str
    agent_id: str = Field(description="id of its conversation")
    turn_id: str
    state: Literal["running", "queued"]
    mode: RuntimeMode


class SendMessage(Frozen):
    """Put a message into the mailbox of a direct child; it starts nothing."""

    caller: Caller
    target: str = Field(description="a path, absolute or relative to the caller, or an agent id")
    text: Text


class Sent(Frozen):
    """`pending`: how many messages wait there, this one among them."""

    message_id: str
    pending: int
    path: str


class FollowUp(Frozen):
    """Start one turn of a direct child with every message that waits in its mailbox now."""

    caller: Caller
    target: str
    text: Text | None = Field(default=None, description="a message to be put there first")


class TurnAccepted(Frozen):
    """`joined`: the child is in a turn, and reads the messages in it."""

    path: str
    agent_id: str
    turn_id: str
    messages: int
    state: Literal["running", "queued", "joined"]


CompletionStatus = Literal["done", "unanswered"]


class Completion(Frozen):
    """How one turn of a child ended. `text` is bounded; the whole is in the child's conversation."""

    update_id: str
    turn_id: str
    path: str
    agent_id: str
    status: CompletionStatus
    reason: UnansweredReason = ""
    detail: str = ""
    text: str = ""
    blob: str = Field(default="", description="reference in the store to the text; empty: `text` is it")
    utf8_bytes: int = Field(default=0, description="of the text")
    is_cut: bool = False
    ended: datetime
    spent: Ledger = Field(default=Ledger(), description="of the agent and all below it, since they began")
    working: tuple[str, ...] = Field(default=(), description="its own children that had not ended then; at most 8")


class ReadUpdates(Frozen):
    """Read what direct children have ended since; a call that gets nothing is told when there is something.

    It is told by a delivery of `AGENT_UPDATE` under the key `key` of the call. `path`: of this child alone.
    """

    caller: Caller
    key: str = Field(default="", description="empty: it does not wait")
    target: str = ""


class Working(Frozen):
    """A direct child that has not ended its turn: since when, and what it waits for."""

    path: str
    state: str
    since: datetime | None = None
    detail: str = ""


class Updates(Frozen):
    """Completions in the order in which they came, at most 256 KiB of them; `more` are left.

    They are this call's until its result is durable, or it is over without one. So it is with those that other calls
    have: `held` counts them.
    """

    completions: tuple[Completion, ...] = ()
    more: int = 0
    held: int = 0
    working: tuple[Working, ...] = Field(default=(), description="of the children that work the first 16")
    more_working: int = 0
    already_read: tuple[str, ...] = Field(default=(), description="16 paths of children that ended and were read")
    more_already_read: int = 0


class ReadDone(Frozen):
    """The completions that a call read are in its result."""

    task_id: str


class Reported(Frozen):
    """An agent's call has reported to the parent; told for the event alone."""

    caller: Caller


OWN = "$own"
"""The target of an interrupt that means the agent which this very call has started."""


class Interrupt(Frozen):
    """Stop what a descendant does, and everything below it; its conversation stays.

    The call is told by a delivery of `AGENT_UPDATE` under `key` when that is over.
    """

    caller: Caller
    target: str
    key: str = ""


class Interrupted(Frozen):
    """`stopping`: it will be over soon; else it did nothing."""

    path: str
    agent_id: str
    state: Literal["stopping", "idle"]


class TurnNotice(Frozen):
    """Of one run of a subagent; `number` counts its rests, and tells a late notice from a new one."""

    conversation_id: str
    generation_id: str
    number: int = 0
    waits_for: str = Field(default="", max_length=500, description="of a rest: what it waits for, in a few words")


class StopBelow(Frozen):
    """A conversation was stopped. `run`: the number of its newest run; what it asked for starts no more."""

    conversation_id: str
    run: int


AgentState = Literal["queued", "starting", "running", "waiting", "stopping", "idle", "ready", "corrupt"]
"""`waiting`: its turn is parked, or its children are not over. `idle`: it has ended a turn, `ready`: none yet."""


class AgentRow(Frozen):
    """One agent in a list."""

    path: str
    agent_id: str
    definition: str
    description: str = ""
    state: AgentState
    since: datetime
    waits_for: str = ""
    pending: int = Field(default=0, description="messages in its mailbox")
    updates: int = Field(default=0, description="completions of its children that it has not read")
    turns: int = 0
    turn_id: str = ""
    undelivered: int = Field(default=0, description="completions that could not be given to its parent")
    spent: Ledger = Field(default=Ledger(), description="by it and all below it")


EventKind = Literal[
    "start", "turn-start", "turn-end", "end", "message", "interrupt", "report", "completion-error", "stop", "reload"
]


class AgentEvent(Frozen):
    """Something that happened in the tree; `number` counts them."""

    number: int
    at: datetime
    kind: EventKind
    path: str
    turn_id: str = ""
    detail: str = ""


class AgentList(Frozen):
    """The agents below one, in the order of their paths, and the newest events."""

    root: str
    path: str = Field(default="/root", description="of the one whose agents these are")
    agents: tuple[AgentRow, ...] = ()
    permits: int = 0
    permits_used: int = 0
    queued: int = 0
    spent: Ledger = Field(default=Ledger(), description="by all that are listed")
    events: tuple[AgentEvent, ...] = ()


class AgentsInput(Frozen):
    """What a tree begins with. `packed`: the state that is carried from run to run; empty: it is in `state`, if any."""

    root: str = Field(default="", description="id of the root conversation; empty: the tree's id has it")
    snapshot: Snapshot = Snapshot()
    state: dict[str, Any] | None = None
    packed: str = ""
    turnover_events: int = Field(default=1_000, description="history events after which it continues as new")
    is_collecting: bool = Field(default=False, description="the root conversation is over, and so the tree will be")
    traces: dict[str, str] = Field(default={}, description="of whoever gave an agent its newest turn, by agent id")


class AgentUpdate(BaseModel):
    """Something that a call waits for has happened in its tree: ask again."""

    number: int = 0


AGENT_UPDATE = Signal("tarry.agent-update", 1, AgentUpdate, built_in=True)
"""What a call is told that waits for its agents."""


def tree_of(task_id: str) -> str:
    """The id of the workflow that knows the agents of a root conversation, by the id of a run or a call of it."""
    return f"{task_id.partition('/')[0]}/agents"
