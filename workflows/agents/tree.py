"""`tarry.agents`: the agents below one root: their paths, mailboxes, permits and completions (spec §17.14).

Every rule is in `tarry.core.subagents.tree`; here requests come in and the tree's orders are carried out. It has no
children, so it can always continue as new: an order that is not acknowledged goes along.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError

from signals.box import Delivery, Receipt
from tarry.core.keeping import TERMINATE, TerminateInput
from tarry.core.paths import root_of
from tarry.core.subagents.carrying import CARRY_OUT, CarryOut, answer_type, unanswered
from tarry.core.subagents.definition import Snapshot
from tarry.core.subagents.foreseen import ForeseeingTree
from tarry.core.subagents.orders import BeginTurn, Order, Outcome
from tarry.core.subagents.packing import packed, unpacked
from tarry.core.subagents.protocol import (
    AGENTS,
    COLLECT,
    FOLLOW_UP,
    INTERRUPT,
    LIST,
    READ,
    REFUSED,
    RELOAD,
    SEND,
    SNAPSHOT,
    START,
    AgentList,
    AgentsInput,
    FollowUp,
    Interrupt,
    Interrupted,
    ReadUpdates,
    SendMessage,
    Sent,
    StartAgent,
    Started,
    StopBelow,
    TurnAccepted,
    Updates,
)
from tarry.core.subagents.refusing import Refused
from tarry.core.waiting import CROWDED, DELIVER, NOTIFIED
from tarry.seeing.spans import traceparent, within
from workflows import options
from workflows.agents import told
from workflows.ends import read
from workflows.supervise import supervise
from workflows.task.port import MAX_UPDATES

AT_ONCE = 20
"""Orders that are carried out at the same time."""
SLACK_EVENTS = 500
"""How much longer a run may grow that waits for a moment without orders under way. What is under way then is carried
out again by the next run: an order that fails for long holds up neither the others nor the turn."""

MAX_REQUEST_BYTES = 512 * 1024
"""Of a request as JSON: what it asks for is kept and carried."""

R = TypeVar("R")
B = TypeVar("B", Started, TurnAccepted)


_FROM_A_SHELL = AgentsInput()
"""What a tree begins with that is started without an input."""


@workflow.defn(name=AGENTS)
class Agents:
    """Takes requests and what its agents tell, and carries out what follows from them."""

    @workflow.init
    def __init__(self, input: AgentsInput = _FROM_A_SHELL) -> None:
        self._tree = _tree_of(input)
        self._turnover_events = input.turnover_events
        self._under_way: set[asyncio.Task[None]] = set()
        self._updates = 0
        self._must_turn_over = False
        self._is_collecting = input.is_collecting
        self._traces = dict(input.traces)

    @workflow.run
    async def run(self, input: AgentsInput = _FROM_A_SHELL) -> None:
        """Serve until it is time to continue as new, or the tree is collected."""
        await supervise(self._serve(), self._on_cancel)
        if not self._is_collected:
            carried = {"state": None, "packed": packed(self._tree), "is_collecting": self._is_collecting}
            begun = {"snapshot": Snapshot(), "traces": self._traces}
            workflow.continue_as_new(input.model_copy(update=begun | carried))
        ended = TerminateInput(workflow_ids=tuple(self._tree.agents))
        await workflow.execute_activity(TERMINATE, ended, **options.TERMINATE)

    async def _serve(self) -> None:
        self._begin([order for order in self._tree.orders if order.is_taken])  # by a run that could not await them
        while not self._should_leave():
            self._begin(self._startable())
            await workflow.wait_condition(lambda: bool(self._startable()) or self._should_leave())

    def _startable(self) -> list[Order]:
        return self._tree.due()[: max(0, AT_ONCE - len(self._under_way))]

    def _begin(self, orders: Sequence[Order]) -> None:
        for order in orders:
            task = asyncio.ensure_future(self._carry_out(self._tree.take(order)))
            self._under_way.add(task)
            task.add_done_callback(self._under_way.discard)

    async def _carry_out(self, order: Order) -> None:
        self._tree.done(order.order_id, await self._outcome(order), workflow.now())

    async def _outcome(self, order: Order) -> Outcome:
        carry_out = CarryOut(tree_id=self._tree.tree_id, order=order)
        trace = self._traces.get(order.agent_id, "") if isinstance(order, BeginTurn) else ""
        try:
            with within(trace):
                carried = workflow.start_activity(CARRY_OUT, carry_out, result_type=RawValue, **options.CARRY_OUT)
            answer = await carried
        except ActivityError as error:  # somebody ended it by hand
            return unanswered(order, f"it was given up: {error.cause or error}")
        as_type = answer_type(order)
        if as_type is None:
            return None
        return read(answer, as_type) or unanswered(order, "it left no answer that can be read")

    def _should_leave(self) -> bool:
        if self._is_collected:
            return True
        info = workflow.info()
        beyond = info.get_current_history_length() - self._turnover_events
        is_due = beyond > 0 or info.is_continue_as_new_suggested() or self._updates >= MAX_UPDATES
        is_quiet = not self._under_way
        return beyond > SLACK_EVENTS or (is_quiet and (is_due or self._must_turn_over))

    def _on_cancel(self) -> None:
        """Temporal's cancel means Stop; the tree lives on in a fresh run, which can be told again."""
        self._stop_all()
        self._must_turn_over = True

    def _stop_all(self) -> None:
        asked = max((agent.asked_run for agent in self._tree.children(self._tree.root)), default=0)
        self._tree.stopped(StopBelow(conversation_id=self._tree.root, run=asked), workflow.now())

    def _collect(self) -> None:
        """The root conversation is over: stop everything, end the agents' conversations, and then end."""
        self._is_collecting = True
        self._stop_all()

    @property
    def _is_collected(self) -> bool:
        is_over = not self._tree.orders and not any(agent.turn for agent in self._tree.agents.values())
        return self._is_collecting and is_over

    # What it is asked.

    @workflow.update(name=START)
    def start(self, request: StartAgent) -> Started:
        """Start a child of the caller with its first turn."""
        return self._begun(self._answer(lambda: self._tree.start(request, workflow.now())))

    @workflow.update(name=SEND)
    def send(self, request: SendMessage) -> Sent:
        """Put a message into the mailbox of a child."""
        return self._answer(lambda: self._tree.send(request, workflow.now()))

    @workflow.update(name=FOLLOW_UP)
    def follow_up(self, request: FollowUp) -> TurnAccepted:
        """Start a turn of a child with what waits in its mailbox."""
        return self._begun(self._answer(lambda: self._tree.follow_up(request, workflow.now())))

    @workflow.update(name=READ)
    def read(self, request: ReadUpdates) -> Updates:
        """What children have ended, reserved for the call that reads."""
        return self._answer(lambda: self._tree.read(request, workflow.now()))

    @workflow.update(name=INTERRUPT)
    def interrupt(self, request: Interrupt) -> Interrupted:
        """Stop a descendant, and all below it."""
        return self._answer(lambda: self._tree.interrupt(request, workflow.now()))

    @workflow.update(name=RELOAD)
    def reload(self, snapshot: Snapshot) -> None:
        """Another catalogue and other settings count from now on."""
        self._answer(lambda: self._tree.reload(snapshot, workflow.now()))

    def _begun(self, turn: B) -> B:
        """Its run, whenever it begins, is part of the trace of who asked for it (spec §24.2)."""
        self._traces[turn.agent_id] = traceparent()
        return turn

    def _answer(self, ask: Callable[[], R]) -> R:
        self._updates += 1
        with refusing():
            return ask()

    @workflow.update(name=DELIVER)
    def deliver(self, delivery: Delivery) -> Receipt:
        """How a turn ended, from the outbox of its conversation (spec §7.2)."""
        self._updates += 1
        return told.take_delivery(self._tree, delivery)

    @deliver.validator
    def _check_deliver(self, delivery: Delivery) -> None:
        self._check_room()
        told.check_delivery(delivery)

    @start.validator
    def _check_start(self, request: StartAgent) -> None:
        self._check(request)

    @send.validator
    def _check_send(self, request: SendMessage) -> None:
        self._check(request)

    @follow_up.validator
    def _check_follow_up(self, request: FollowUp) -> None:
        self._check(request)

    @read.validator
    def _check_read(self, request: ReadUpdates) -> None:
        self._check(request)

    @interrupt.validator
    def _check_interrupt(self, request: Interrupt) -> None:
        self._check(request)

    @reload.validator
    def _check_reload(self, snapshot: Snapshot) -> None:
        self._check(snapshot)

    def _check(self, request: BaseModel) -> None:
        """Refuse what can be refused at once, and leave no event; also what has not the shape of a request."""
        self._check_room()
        with refusing():
            if self._is_collecting:
                raise Refused("stopped", f"{self._tree.root} is over, and its agents with it")
            if len(request.model_dump_json()) > MAX_REQUEST_BYTES:
                raise Refused("invalid", f"a request of over {MAX_REQUEST_BYTES} bytes: put texts into the store")
            self._tree.foresee(request)

    def _check_room(self) -> None:
        if self._updates >= MAX_UPDATES:
            raise ApplicationError("this run has taken as many updates as it may", type=CROWDED)

    # What it is told.

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Temporal signals by name, from ours and from any shell: none fails."""
        if name == COLLECT:
            self._collect()
        elif not told.take_signal(self._tree, name, args):
            workflow.logger.warning("a signal that a tree of agents does not take was left out")

    # How it stands.

    @workflow.query(name=LIST)
    def agents(self, conversation_id: str = "") -> AgentList:
        """The agents below a conversation."""
        with refusing():
            return self._tree.listing(conversation_id)

    @workflow.query(name=SNAPSHOT)
    def snapshot(self) -> Snapshot:
        """The catalogue and the settings that count."""
        return self._tree.snapshot

    @workflow.query(name=NOTIFIED)
    def notified(self) -> dict[str, dict[str, str]]:
        """Which submissions it is told of, by the key that it is told under (spec §7.2)."""
        return told.awaited(self._tree)


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Tell a refusal to whoever asked."""
    try:
        yield
    except Refused as error:
        raise ApplicationError(error.refusal.text, error.refusal, type=REFUSED) from None


def _tree_of(input: AgentsInput) -> ForeseeingTree:
    if input.packed:
        return unpacked(input.packed)
    if input.state is None:
        tree_id = workflow.info().workflow_id
        return ForeseeingTree.begin(tree_id, input.root or root_of(tree_id), input.snapshot)
    return ForeseeingTree.model_validate(input.state)
