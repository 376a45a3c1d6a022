"""Who expects which webhook: names, payloads, and the machine of one expectation.

Pure; `now` comes in. An expectation is found by its source and match. It has at most one target, which
never changes, and keeps webhooks only as long as it has none.
"""

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta
from typing import Any

from signals.data import NotJson, clean, json_size, json_text
from signals.tokens import key_problem
from tarry.core.messages import Frozen

EXPECTATION = "tarry.expectation"
EXPECT = "tarry.expect"
"""Update and signal: a `Target`. The update returns when what was kept for it has been delivered."""
KEEP = "tarry.keep"
"""Signal: a `Kept`."""
FORWARD = "tarry.forward"
MATCH_TAKEN = "tarry.match-taken"

TARGET_MEMO = "tarry.target"
"""The memo entry that holds the `Target`: read without a worker."""

EXPECTED_FOR = timedelta(days=30)
UNEXPECTED_FOR = timedelta(days=1)
MAX_KEPT = 50
KEPT_BYTES = 512 * 1024
"""Of all kept webhooks together, as JSON, from which on no other is kept."""
TURNOVER_EVENTS = 1_000


def expectation_id(source: str, match: str) -> str:
    """The workflow that stands for a match of a source; the match itself may hold anything."""
    return f"expectation/{hashlib.sha256(json_text([source, match]).encode()).hexdigest()[:40]}"


def match_problem(match: object) -> str | None:
    """Why nothing could be expected under `match`, or None. Any text of 1 byte to 8 KiB can."""
    problem = key_problem(match)
    return problem and problem.replace("a key", "a match")


def label(source: str, match: str) -> str:
    """A line that tells a person which expectation it is."""
    return clean(f"{source}: {match!r}", 180)


class Target(Frozen):
    """The key of a task that a webhook is for."""

    task_id: str
    signal: str
    key: str


class Kept(Frozen):
    """A webhook's value, and the id that makes a resend recognisable."""

    value: Any
    delivery_id: str


class ForwardInput(Frozen):
    """Deliver these to the target, in this order."""

    target: Target
    kept: tuple[Kept, ...]


class Forwarded(Frozen):
    """What the target answered to each, in order; for people who read the history."""

    answers: tuple[str, ...]


class ExpectationInput(Frozen):
    """What an expectation starts with, and what it carries over a turn of its run: `until` and `kept`."""

    target: Target | None = None
    expected_for: timedelta = EXPECTED_FOR
    unexpected_for: timedelta = UNEXPECTED_FOR
    until: datetime | None = None
    kept: tuple[Kept, ...] = ()


class Expectation:
    """One match of one source."""

    def __init__(self, input: ExpectationInput, now: datetime) -> None:
        self._input = input
        self.target = input.target
        self.kept = list(input.kept)
        self.until = input.until or now + (input.expected_for if input.target else input.unexpected_for)

    def accepts(self, target: Target) -> bool:
        """Whether nobody else is the target."""
        return self.target in (None, target)

    def expect(self, target: Target, now: datetime) -> bool:
        """Make `target` the one, for `expected_for` from now; True when it is new. Nothing if another is."""
        if self.target is not None:
            return False
        self.target = target
        self.until = now + self._input.expected_for
        return True

    def keep(self, kept: Kept) -> None:
        """Keep a webhook until it has reached a target; none that is here already, is no JSON data, or has no room."""
        if any(one.delivery_id == kept.delivery_id for one in self.kept) or not _is_json(kept.value):
            return
        # As the gateway judges before it answers, by what is here already: what it took is not dropped here.
        size = sum(json_size(one.value) for one in self.kept)
        if len(self.kept) < MAX_KEPT and size <= KEPT_BYTES:
            self.kept.append(kept)

    def due(self) -> ForwardInput | None:
        """What is to be delivered now."""
        if self.target is None or not self.kept:
            return None
        return ForwardInput(target=self.target, kept=tuple(self.kept))

    def forwarded(self, forward: ForwardInput) -> None:
        """These have reached the target, or never will."""
        self.kept = self.kept[len(forward.kept) :]

    def is_over(self, now: datetime) -> bool:
        """Whether its time has passed."""
        return now >= self.until

    def carried(self) -> ExpectationInput:
        """What the next run starts with."""
        return self._input.model_copy(update={"target": self.target, "until": self.until, "kept": tuple(self.kept)})


def _is_json(value: Any) -> bool:
    """Whether any task could take it; from a shell anything may come."""
    try:
        json_size(value)
    except NotJson:
        return False
    return True
