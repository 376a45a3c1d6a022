"""How the orders of a tree are carried out: one activity for each, and what it is answered with.

Pure.
"""

from __future__ import annotations

from tarry.core.messages import Frozen
from tarry.core.subagents.orders import (
    AbortConversation,
    Aborted,
    BeginTurn,
    Begun,
    Fetched,
    FetchTurn,
    LookAtCall,
    Looked,
    Order,
    Outcome,
)

CARRY_OUT = "tarry.agents.carry-out"
LOOK_AFTER = "tarry.agents.look-after"
"""Activity: given the id of a tree, tells it which of its agents' conversations are over."""


class CarryOut(Frozen):
    """One order of the tree with that id."""

    tree_id: str
    order: Order


def answer_type(order: Order) -> type[Begun] | type[Aborted] | type[Fetched] | type[Looked] | None:
    """What an order is answered with; None: nothing is to be told."""
    match order:
        case BeginTurn():
            return Begun
        case AbortConversation():
            return Aborted
        case FetchTurn():
            return Fetched
        case LookAtCall():
            return Looked
        case _:
            return None


def unanswered(order: Order, why: str) -> Outcome:
    """What counts for an order that somebody ended by hand, or whose answer cannot be read."""
    match order:
        case BeginTurn():
            return Begun(failed=why)
        case AbortConversation():
            return Aborted()
        case FetchTurn():
            return Fetched()
        case LookAtCall():
            return Looked(state="open")
        case _:
            return None
