"""The waiting core: tokens of signals, the box a task keeps for the world, and parks. Pure."""

from signals.box import Answer, Box, BoxFull, Delivery, KeyState, Receipt, Stored
from signals.data import NotJson
from signals.parking import Ask, InvalidPark, Park, Sleep, Wake, commit, park, wake
from signals.tokens import Migrate, Signal, SignalKey, Unreadable, judge, key_problem, value_problem

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
    "Receipt",
    "Signal",
    "SignalKey",
    "Sleep",
    "Stored",
    "Unreadable",
    "Wake",
    "commit",
    "judge",
    "key_problem",
    "park",
    "value_problem",
    "wake",
]
