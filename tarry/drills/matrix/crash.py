"""The crash points along the way of a call, and what is promised at each under each replay policy (spec §21.4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tarry.drills.kit.app import AFTER
from tarry.drills.kit.cell import Cell, Policy
from tarry.drills.kit.ground import BEGUN
from tarry.drills.kit.model import AFTER_RESULT, ANSWERED, IN_THE_END, MID_STREAM
from tarry.drills.matrix.app import ANSWER_TOLD, HAS_INTENT, IN_GATE, RETURNED, TURN_TOLD

Cut = Literal["nothing", "before", "after"]
"""What of the tool a kill cuts off: nothing of it, a run before its effect, or a run after its effect."""


@dataclass(frozen=True)
class CrashPoint:
    """A point at which the worker is killed.

    Attributes:
        name: ends the sentence "The worker was killed …".
        at: where the code of the call holds, of `tarry.drills.kit.points`; empty where no code runs.
        cuts: what the kill cuts off.
        parks: whether the call has parked before.
        starves: what waits for a place on a worker when the code is let go: the call for its run, or the run of the
            conversation for its next request. The kill comes then.
        had_begun: whether a run that is cut off had come to the tool's own code.
        had_effect: whether the effect was there when the worker was killed.
    """

    name: str
    at: str = ""
    cuts: Cut = "nothing"
    parks: bool = False
    starves: Literal["", "call", "run"] = ""
    had_begun: bool = True
    had_effect: bool = False


POINTS = (
    CrashPoint("in the model's stream", MID_STREAM),
    CrashPoint("with the model's answer made, not yet told", ANSWERED),
    CrashPoint("in a gate, before the intent", IN_GATE),
    CrashPoint("after the intent, before a worker ran it", ANSWERED, starves="call"),
    CrashPoint("in the run, before the tool's code", HAS_INTENT, "before", had_begun=False),
    CrashPoint("in the tool, before its effect", BEGUN, "before"),
    CrashPoint("in the tool, after its effect", AFTER, "after", had_effect=True),
    CrashPoint("with the result made, not yet told", RETURNED, "after", had_effect=True),
    CrashPoint("at the turn's commit, in a hook of it", TURN_TOLD, had_effect=True),
    CrashPoint("after the turn's commit, before the next request", AFTER, starves="run", had_effect=True),
    CrashPoint("in the next request, before its answer", AFTER_RESULT, had_effect=True),
    CrashPoint("with the final answer made, not yet told", IN_THE_END, had_effect=True),
    CrashPoint("at the answer's commit, in a hook of it", ANSWER_TOLD, had_effect=True),
    CrashPoint("while the call was parked", parks=True),
    CrashPoint("woken, in the tool, before its effect", BEGUN, "before", parks=True),
    CrashPoint("woken, in the tool, after its effect", AFTER, "after", parks=True, had_effect=True),
)
"""In the order of a call's way."""

EXPECTED: dict[Cut, str] = {
    "nothing": "one run, one effect and its result under every policy",
    "before": "unsafe and reconciled: no effect, interrupted; safe and keyed: run again, one effect, its result",
    "after": "one effect, but two of a safe call without a key; unsafe: interrupted; the others: a result",
}


@dataclass(frozen=True)
class _Promise:
    more_runs: int
    effects: int
    read: str


OPENED = "Opened"
INTERRUPTED = "interrupted"

_RUN_AGAIN = _Promise(more_runs=1, effects=1, read=OPENED)
_CUT_OFF = _Promise(more_runs=0, effects=0, read=INTERRUPTED)

_PROMISES: dict[tuple[Cut, Policy], _Promise] = {
    ("before", "unsafe"): _CUT_OFF,
    ("before", "safe"): _RUN_AGAIN,
    ("before", "keyed"): _RUN_AGAIN,
    ("before", "reconciled"): _CUT_OFF,
    ("after", "unsafe"): _Promise(more_runs=0, effects=1, read=INTERRUPTED),
    # It said that it may run again, and whoever takes the effect cannot tell that it is the same.
    ("after", "safe"): _Promise(more_runs=1, effects=2, read=OPENED),
    ("after", "keyed"): _RUN_AGAIN,
    ("after", "reconciled"): _Promise(more_runs=0, effects=1, read=OPENED),
}


def promised(point: CrashPoint, policy: Policy, calls: int) -> Cell:
    """What so many calls of a policy come to when the worker is killed with each of them at the point."""
    if point.cuts == "nothing":
        runs, promise = 1, _RUN_AGAIN
    else:
        promise = _PROMISES[point.cuts, policy]
        runs = int(point.had_begun) + promise.more_runs
    return Cell(
        policy=policy,
        point=point.name,
        calls=calls,
        runs=calls * runs,
        effects=calls * promise.effects,
        duplicates=calls * max(0, promise.effects - 1),
        read={promise.read: calls},
    )
