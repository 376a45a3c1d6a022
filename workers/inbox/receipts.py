"""What a person is told of an answer of theirs: what became of it, and never more (spec §23.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from signals.box import Receipt
from tarry.client.decisions import LastSeen
from tarry.core.decisions import Decided

Kind = Literal["delivered", "duplicate", "closed", "invalid", "accepted", "not_found", "changed", "unavailable"]

STATUS: dict[Kind, int] = {
    "delivered": 200,
    "duplicate": 200,
    "accepted": 202,
    "closed": 410,
    "not_found": 404,
    "changed": 409,
    "invalid": 422,
    "unavailable": 503,
}

CHANGED = "The question has changed since this page showed it: look again. Nothing was sent."
ACCEPTED = "Kept by the server: no worker is up to take it. What became of it is told here once one is."
TAKEN_UP = "A worker has taken it up, and none is up to tell what became of it. That is told here once one is."
UNJUDGED = "A worker has taken it up. What became of it is told here once its task tells that."
LATE = "Kept by the server, but the deadline had passed: it counts as no answer unless the clock here is ahead."
UNAVAILABLE = "Temporal does not answer. It may or may not have come: send it again, it counts once."
UNTOLD = "Whether it was answered before is not known: no worker is up to tell."
FORGOTTEN = "There is no such task any more."

NOBODY = "whoever holds the link"
"""Who answers by a link that is for nobody."""

_ENDS = {
    "aborted": "it was stopped",
    "canceled": "it was stopped",
    "terminated": "it was ended by force",
    "expired": "it expired: nobody answered in time",
    "blocked": "another gate blocked it",
    "denied": "it was denied",
}


@dataclass(frozen=True)
class Told:
    """What became of an answer: `said` is what the person chose, `text` what came of it. `label`: its key in lists."""

    kind: Kind
    said: str
    text: str
    task_id: str
    delivery_id: str = ""
    label: str = ""

    @property
    def data(self) -> dict[str, Any]:
        """As JSON data."""
        return asdict(self)

    @classmethod
    def read(cls, data: object) -> Told | None:
        """What `data` was made of; None of anything else."""
        try:
            return cls(**data) if isinstance(data, dict) else None
        except TypeError:
            return None


def clock(at: datetime) -> str:
    """A time in a sentence."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def delivered(at: datetime | None) -> str:
    """It is the answer of the question."""
    return f"Delivered at {clock(at)}." if at else "Delivered."


def invalid(reason: str) -> str:
    """Its schema refused it."""
    return f"Not taken: {reason}."


def judged(receipt: Receipt) -> str:
    """What the task said of an answer that the server had kept."""
    if receipt.answer == "delivered":
        return delivered(receipt.at)
    return f"It was not taken at {clock(receipt.at)}: {receipt.reason}."


def left(found: LastSeen, known: Sequence[Receipt] | None) -> str:
    """What the server kept is in no receipt, and the task is over; `known`: its receipts, None: nobody tells them."""
    end = f"{_ENDS.get(found.code, 'it is over')}{f', at {clock(found.ended)}' if found.ended else ''}"
    if known is None:
        return f"Kept by the server; {end}. What became of it is told here once a worker is up."
    return f"Kept by the server, but nothing tells that it was taken: {end}."


def answered(one: Decided, person: str) -> str:
    """Somebody was first."""
    how = "answered" if one.allowed is None else "allowed" if one.allowed else "denied"
    who = "you" if one.by == person != NOBODY else one.by
    why = f": “{one.reason}”" if one.reason else ""
    return f"Already {how} by {who} at {clock(one.at)}{why}."


def answered_by(person: str, at: datetime) -> str:
    """Somebody was first, of whom at most the name is known."""
    return f"Already answered by {person or 'somebody whose name is not known'} at {clock(at)}."


def over(found: LastSeen) -> str:
    """Nobody answered it, and nobody will."""
    if found.code == "expired" or (not found.ended and not found.code and found.until and found.until <= _now()):
        return f"It expired{f' at {clock(found.until)}' if found.until else ''}. Nothing was sent."
    if found.ended is None:
        return "It does not ask this any more. Nothing was sent."
    end = _ENDS.get(found.code, "it is over")
    return f"Too late: {end}, at {clock(found.ended)}. Nothing was sent."


def _now() -> datetime:
    return datetime.now(UTC)
