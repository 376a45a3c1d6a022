"""What a tree of agents wants done, and what it is told then (spec §17.7).

Pure. An order stays until it is acknowledged. It is carried out at least once, so each is idempotent. Of one lane only
one is under way at a time, in order.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from tarry.core.agent import Agent
from tarry.core.ledger import Ledger
from tarry.core.messages import Frozen
from tarry.core.protocol import UnansweredReason
from tarry.core.settled import Settled
from tarry.core.subagents.definition import AgentDefinition, RuntimeMode
from tarry.core.subagents.protocol import Caller, CompletionStatus, ContextPolicy, Text, TurnNotice


class Birth(Frozen):
    """What the conversation of a new agent begins with."""

    caller: Caller = Field(description="the call that started it, which owns it")
    definition: AgentDefinition
    description: str = ""
    context: ContextPolicy = ContextPolicy()
    agent: Agent = Agent()
    output: dict[str, Any] | None = None


class Ordered(Frozen):
    """`lane`: orders with the same one are carried out one after the other."""

    order_id: str = ""
    lane: str
    is_taken: bool = Field(default=False, description="whether it is under way")


class BeginTurn(Ordered):
    """Submit messages to an agent under `request_id`, once; `birth`: its conversation may have to be created before.

    `joins`: as a steer into the run that is open. Its end is told by a delivery of `tarry.submission-settled` under
    `request_id`. Answered with a `Begun`.
    """

    kind: Literal["begin-turn"] = "begin-turn"
    agent_id: str
    path: str
    parent_id: str
    turn_id: str
    request_id: str
    mode: RuntimeMode
    joins: bool = False
    birth: Birth | None = None
    output: dict[str, Any] | None = Field(default=None, description="as of the turn; None: text, or as `birth` says")
    messages: tuple[Text, ...] = Field(default=(), description="filled in when it is taken")


class Begun(Frozen):
    """The user turn is durable; or why it never can be. `is_corrupt`: the conversation is not what it should be.

    `is_queued`: it waits in the conversation, and its end will tell whether it came to stand there. `settled`: that is
    over already, as after a reset of the tree, which nobody may tell of again.
    """

    generation_id: str = ""
    is_queued: bool = False
    failed: str = ""
    is_corrupt: bool = False
    settled: Settled | None = None


class AbortConversation(Ordered):
    """Stop what an agent does. Answered with an `Aborted`."""

    kind: Literal["abort"] = "abort"
    agent_id: str
    turn_id: str


class Aborted(Frozen):
    """`is_gone`: there is no such conversation, so nothing will ever tell how its turn ended."""

    is_gone: bool = False


class FetchTurn(Ordered):
    """A turn has ended: look up its answer, or the last useful text, and what was spent. Answered with a `Fetched`."""

    kind: Literal["fetch-turn"] = "fetch-turn"
    agent_id: str
    turn_id: str
    status: CompletionStatus
    reason: UnansweredReason = ""
    detail: str = ""
    answer: int | None = None
    answer_text: str | None = None
    max_bytes: int
    ended: datetime
    working: tuple[str, ...] = ()


class Fetched(Frozen):
    """At most `max_bytes` of the text, itself or by reference.

    `spent`: by the agent itself in all its turns so far; None: nobody knows. `reason`: the text was cut off, or is a
    refusal, and so no answer.
    """

    text: Text | None = None
    is_cut: bool = False
    spent: Ledger | None = None
    reason: UnansweredReason = ""


class TellCall(Ordered):
    """Deliver `tarry.agent-update` to a call under its key; one that is over needs none."""

    kind: Literal["tell-call"] = "tell-call"
    task_id: str
    key: str
    number: int


class Grant(Ordered):
    """Tell a run that its woken code may go on."""

    kind: Literal["grant"] = "grant"
    notice: TurnNotice


class TellRoot(Ordered):
    """Tell the root conversation that it has a tree; no turn begins before that is done."""

    kind: Literal["tell-root"] = "tell-root"
    conversation_id: str
    tree_id: str


class LookAtCall(Ordered):
    """Is this reading call over, and is what it read in its result? Answered with a `Looked`."""

    kind: Literal["look-at-call"] = "look-at-call"
    task_id: str


class Looked(Frozen):
    """`read`: it is over, and its result is in history; `over`: it is over without one."""

    state: Literal["open", "read", "over"]


Order = Annotated[
    BeginTurn | AbortConversation | FetchTurn | TellCall | Grant | TellRoot | LookAtCall, Field(discriminator="kind")
]
Outcome = Begun | Aborted | Fetched | Looked | None


class Orders(BaseModel):
    """Orders that are not acknowledged, in the order in which they were given."""

    open: list[Order] = Field(default_factory=list)
    count: int = 0

    def give(self, order: Order) -> None:
        """A new order."""
        self.count += 1
        self.open.append(order.model_copy(update={"order_id": str(self.count)}))

    def due(self) -> list[Order]:
        """What can be carried out now: of every lane the first, unless it is under way; a tree is told of first."""
        first: dict[str, Order] = {}
        for order in self.open:
            first.setdefault(order.lane, order)
        is_told = not any(isinstance(order, TellRoot) for order in self.open)
        return [
            order for order in first.values() if not order.is_taken and (is_told or not isinstance(order, BeginTurn))
        ]

    def take(self, order: Order) -> None:
        """It is under way."""
        self.open = [
            one.model_copy(update={"is_taken": True}) if one.order_id == order.order_id else one for one in self.open
        ]

    def done(self, order_id: str) -> Order | None:
        """It was carried out: the order, or None when it was told of before."""
        found = next((order for order in self.open if order.order_id == order_id), None)
        self.open = [order for order in self.open if order is not found]
        return found

    def settle(self, request_id: str) -> None:
        """What was submitted under this id is over: the order is done, though nobody has said so yet."""
        self.open = [
            order for order in self.open if not (isinstance(order, BeginTurn) and order.request_id == request_id)
        ]

    def withdraw(self, request_id: str) -> bool:
        """Take the order back that submits under this id; whether it was not under way yet."""
        before = len(self.open)
        self.open = [
            order
            for order in self.open
            if not (isinstance(order, BeginTurn) and order.request_id == request_id and not order.is_taken)
        ]
        return len(self.open) < before
