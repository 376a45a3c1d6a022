"""Names and payloads of waiting: deliveries to a task, what is asked of it, and what it asks of the world.

Pure. A *task* is whatever a signal can be delivered to: a tool call, or a durable task of an application.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import Field, RootModel

from signals.box import Answer, Delivery, Receipt
from signals.parking import Ask, Policy
from signals.tokens import SignalKey
from tarry.core.messages import Frozen, Usage
from tarry.core.protocol import ResolvedCall, ToolOutcome

DELIVER = "tarry.deliver"
"""Update: a `Delivery`; returns its `Receipt`. Refused with an error of type `REFUSED` that carries the receipt."""
CREATE_CHILD = "tarry.create-child"
"""Update: a `CreateChild`; returns the id of the child, the same for the same key."""
CHILD_END = "tarry.child-end"
"""Query: the id of a child; answers its `ChildEnd`."""
JUDGE = "tarry.judge"
REFEREE = "tarry.referee"
CLEAN_UP = "tarry.clean-up"
TASK_RUN = "tarry.task-run"
TASK_CLEAN_UP = "tarry.task-clean-up"

SIGNAL_STATE = "tarry.signal-state"
"""Query: a `SignalKey`; answers its `KeyState`."""
RECEIPTS = "tarry.receipts"
"""Query: all receipts that the task still knows, oldest first."""
TASK = "tarry.task"
"""Query: the `TaskView`."""

WATCH = "tarry.watch"
"""Plain signal from a task to another one, with its own id: tell me when you are over."""
ENDED = "tarry.ended"
"""Plain signal to who watches: an `EndNotice`."""

NOTIFIED = "tarry.notified"
"""Query: the submissions whose ends the task is told of, by key, as `conversation id` and `request id`."""
NOTIFY_MEMO = "tarry.notify/"
"""What the memos begin with in which a task keeps those."""

REFUSED = "tarry.refused"
CROWDED = "tarry.crowded"
"""The run has taken as many updates as it may: the plain signal still gets through."""

PARKED_MEMO = "tarry.parked"
"""The memo entry that tells lists what a parked task waits for; a `ParkedNote`."""


class Verdict(Frozen):
    """What the registry says of one delivery: why it is invalid, or the version that its value is in."""

    invalid: str | None = None
    version: int = 1


class JudgeInput(Frozen):
    """Deliveries that came by plain signal, in the order of their arrival."""

    deliveries: tuple[Delivery, ...]


class Verdicts(Frozen):
    """One verdict a delivery, in order."""

    verdicts: tuple[Verdict, ...]


class RefereeInput(Frozen):
    """Which of these plain signals did the server store before the deadline? Numbers count from 1 in this run."""

    numbers: tuple[int, ...]
    deadline: datetime


class Ruling(Frozen):
    """The numbers that were stored in time."""

    in_time: tuple[int, ...]


class ParkRequest(Frozen):
    """What a run ends with in place of an outcome: wait for this, then run again.

    `resume`: the code did not ask for it but awaits a child in its middle; it runs again as if it had been cut off.
    """

    kind: Literal["park"]
    until: datetime | None = None
    keys: tuple[SignalKey, ...] = ()
    on: tuple[str, ...] = ()
    policy: Policy = "all_settled"
    resume: bool = False
    checkpoint: Any = None
    ask: Ask | None = None
    usage: Usage | None = Field(default=None, description="that its code reported in this run")


class StepRequest(Frozen):
    """What a phase of a durable task ends with to go on with another one."""

    kind: Literal["step"]
    checkpoint: Any = None
    usage: Usage | None = Field(default=None, description="that its code reported in this run")


class RunEnd(RootModel[ParkRequest | StepRequest | ToolOutcome]):
    """How one run of a task's code ended; on the wire it is the park, the step or the outcome itself."""


ChildKind = Literal["task", "call"]
"""A durable task, or a nested tool call."""


class CreateChild(Frozen):
    """A task creates another one, its child, under `key`. `run` and `attempt` say who asks, as in a memo."""

    key: str
    kind: ChildKind = "task"
    call: ResolvedCall
    run: int
    attempt: int


class AbortInput(Frozen):
    """A Stop from above, with the time by which cleaning up must be over."""

    deadline: datetime


class EndNotice(Frozen):
    """A task that is over, told to one that waits for it."""

    task_id: str
    failed: bool


class ChildEnd(Frozen):
    """What the owner knows of a child: whether it is over, whether it failed, and its outcome as JSON data.

    An outcome that is too large to be kept is `elsewhere`: with the child itself.
    """

    is_known: bool = True
    is_over: bool = False
    failed: bool = False
    elsewhere: bool = False
    outcome: Any = None


class CleanedUp(Frozen):
    """What became of a tool's `cancel` hook; `problem` is empty when it succeeded."""

    problem: str = ""


class ParkedNote(Frozen):
    """What a person needs to know of a parked task, at most 2 KiB: lists show it with no worker up (spec §9.2)."""

    since: datetime
    until: datetime | None = None
    keys: tuple[str, ...] = Field(default=(), description="`signal/key`, as far as they fit")
    more_keys: int = Field(default=0, description="how many did not fit")
    text: str = Field(default="", description="the question")
    for_whom: str = ""
    tool: str = ""
    arguments: str = Field(default="", description="an excerpt, as JSON")
    digest: str = Field(default="", description="of the arguments")


TaskState = Literal["running", "gated", "sleeping", "waiting", "held", "over"]


class TaskView(Frozen):
    """Where a task stands."""

    task_id: str
    conversation_id: str
    tool: str
    arguments: dict[str, Any] = Field(default_factory=dict)
    state: TaskState
    held: str = ""
    since: datetime | None = Field(default=None, description="since when it is parked")
    until: datetime | None = None
    keys: tuple[SignalKey, ...] = ()
    on: tuple[str, ...] = Field(default=(), description="tasks whose ends it waits for")
    ask: Ask | None = None
    checkpoint: Any = None
    wake: str = Field(default="", description="why it runs: `time`, `expired`, `signal name/key`; empty on a first run")
    intent: int = Field(default=1, description="runs that were begun: the first, and one a wake")
    receipts: tuple[Receipt, ...] = ()


SendAnswer = Answer | Literal["accepted"]
"""What a sender is told; `accepted`: the server keeps it, and the receipt tells later (spec §3.4)."""


class SignalResult(Frozen):
    """What became of a delivery, as far as its sender can know."""

    answer: SendAnswer
    reason: str = ""
    delivery_id: str = Field(default="", description="asks for the receipt, and makes a repeat recognisable")
