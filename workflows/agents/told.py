"""What a tree of agents is told without being asked: by plain signals, and how turns ended (spec §17.14).

Nothing that comes is trusted and nothing fails a workflow task: what cannot be read is left out, and so is what the
tree knows already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import ValidationError
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from signals.box import Delivery, Receipt
from signals.data import clean
from signals.schema import MAX_NAME
from tarry.core.settled import SUBMISSION_SETTLED, Settled
from tarry.core.subagents.definition import Snapshot
from tarry.core.subagents.foreseen import check_reload
from tarry.core.subagents.orders import BeginTurn
from tarry.core.subagents.protocol import (
    READ_DONE,
    RELOAD,
    REPORTED,
    RESTED,
    STOPPED,
    WANTS,
    ReadDone,
    Reported,
    StopBelow,
    TurnNotice,
)
from tarry.core.subagents.refusing import Refused
from tarry.core.subagents.tree import Tree
from tarry.core.waiting import REFUSED
from workflows import patches
from workflows.ends import read_signal


def take_signal(tree: Tree, name: str, args: Sequence[RawValue]) -> bool:
    """A plain signal, from ours or from any shell; whether it was one that the tree takes."""
    try:
        return _take(tree, name, args)
    except Refused as error:
        workflow.logger.warning("%s was refused: %s", name[:MAX_NAME], error)
        return False


def _take(tree: Tree, name: str, args: Sequence[RawValue]) -> bool:
    now = workflow.now()
    if name == READ_DONE and (done := read_signal(args, ReadDone)) is not None:
        tree.read_done(done)
    elif name == RESTED and (notice := read_signal(args, TurnNotice)) is not None:
        tree.rested(notice, now)
    elif name == WANTS and (notice := read_signal(args, TurnNotice)) is not None:
        tree.wants(notice, now)
    elif name == STOPPED and (stop := read_signal(args, StopBelow)) is not None:
        tree.stopped(stop, now)
    elif name == REPORTED and (report := read_signal(args, Reported)) is not None:
        tree.reported(report, now)
    elif name == RELOAD and (snapshot := read_signal(args, Snapshot)) is not None:
        _reload(tree, snapshot)
    elif name == SUBMISSION_SETTLED.name and (envelope := read_signal(args, dict)) is not None:
        return _take_settled(tree, envelope.get("value"))
    else:
        return False
    return True


def _reload(tree: Tree, snapshot: Snapshot) -> None:
    """One that is refused leaves an event that says why, since a plain signal has no answer."""
    try:
        if snapshot.is_bare and patches.BARE_RELOADS.is_passed():
            check_reload(snapshot)
    except Refused as error:
        tree.events.add("reload", tree.path_of(tree.root), workflow.now(), detail=f"refused: {error}")
        raise
    tree.reload(snapshot, workflow.now())


def _take_settled(tree: Tree, value: Any) -> bool:
    try:
        settled = Settled.model_validate(value)
    except ValidationError:
        return False
    tree.settled(settled, workflow.now())
    return True


def check_delivery(delivery: Delivery) -> None:
    """For an update's validator: refuse what no tree takes, and leave no event.

    Raises:
        ApplicationError: REFUSED, with the receipt.
    """
    problem = delivery.problem
    if not problem and delivery.signal != SUBMISSION_SETTLED.name:
        problem = f"a tree of agents takes {SUBMISSION_SETTLED.name} alone"
    if not problem:
        try:
            Settled.model_validate(delivery.value)
        except ValidationError as error:
            problem = str(error)
    if problem:
        refused = _receipt(delivery).model_copy(update={"answer": "invalid", "reason": clean(problem, 400)})
        raise ApplicationError(problem, refused, type=REFUSED)


def take_delivery(tree: Tree, delivery: Delivery) -> Receipt:
    """How a turn ended, once it was checked. A repeat, or the end of an unknown one, is taken and changes nothing."""
    _take_settled(tree, delivery.value)
    return _receipt(delivery)


def awaited(tree: Tree) -> dict[str, dict[str, str]]:
    """The submissions whose end the tree is to be told of: those that are in a conversation, as far as it knows."""
    sent = {order.request_id for order in tree.orders if isinstance(order, BeginTurn)}
    return {
        request_id: {"conversation_id": agent.agent_id, "request_id": request_id}
        for agent in tree.agents.values()
        if agent.turn is not None and agent.turn.has_begun
        for request_id in agent.turn.open
        if request_id not in sent
    }


def _receipt(delivery: Delivery) -> Receipt:
    return Receipt(
        delivery_id=delivery.delivery_id,
        signal=clean(delivery.signal, MAX_NAME),
        key=clean(delivery.key, MAX_NAME),
        answer="delivered",
        at=workflow.now(),
    )
