"""The waiting core: tokens of signals, the box a task keeps for the world, and parks. Pure."""

from signals.box import Answer, Box, BoxFull, Delivery, KeyState, Receipt, Stored
from signals.data import NotJson
from signals.parking import Ask, InvalidPark, Park, Policy, Sleep, Wait, Wake, commit, park, park_on, wake
from signals.schema import Migrate, Unreadable
from signals.tokens import Signal, SignalKey, judge, key_problem, value_problem

__all__ = [
    "Answer",
    "Ask",
    "Box",
    "BoxFull",
    "Delivery",
    "InvalidPark",
    "KeyState",
    "Migrate",
    "NotJson",
    "Park",
    "Policy",
    "Receipt",
    "Signal",
    "SignalKey",
    "Sleep",
    "Stored",
    "Unreadable",
    "Wait",
    "Wake",
    "commit",
    "judge",
    "key_problem",
    "park",
    "park_on",
    "value_problem",
    "wake",
]
