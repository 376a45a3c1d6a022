"""What a person decided, kept with the task itself: lists show it with no worker up, as long as they show the task.

Pure (spec §23.7). Kept only of what woke the task, and only where the door knew who it was.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from signals.box import Stored
from signals.tokens import SignalKey
from tarry.core.messages import Frozen
from tarry.core.parked_note import bounded, label
from tarry.core.people import person_of
from tarry.core.waiting import ParkedNote

DECIDED_MEMO = "tarry.decided"
"""The memo entry that tells lists what people decided: the newest `MAX_DECISIONS`, oldest first."""
MAX_DECISIONS = 3
MAX_REASON_BYTES = 300
MAX_QUESTION_BYTES = 300


class Decided(Frozen):
    """One answer of a person, at most 2 KiB.

    Of a value that allows or denies it says which, and why; of another one only that it came: what people answer may be
    nobody else's business.
    """

    signal: str
    key: str = Field(description="as far as it fits")
    delivery_id: str
    at: datetime
    allowed: bool | None = Field(default=None, description="None: it was no approval")
    reason: str = ""
    question: str = ""
    tool: str = ""
    arguments: str = Field(default="", description="an excerpt, as JSON")
    digest: str = Field(default="", description="of the tool and the arguments that were asked about")

    @property
    def by(self) -> str:
        """Who decided."""
        return person_of(self.delivery_id)


def decided(note: ParkedNote, key: SignalKey, stored: Stored) -> Decided | None:
    """What a value that woke a park decided; None where nobody is known to have sent it."""
    if not person_of(stored.delivery_id):
        return None
    value = stored.value if isinstance(stored.value, dict) else {}
    allowed, reason = value.get("allow"), value.get("reason")
    is_approval = isinstance(allowed, bool)
    return Decided(
        signal=key.signal,
        key=label(key).partition("/")[2],
        delivery_id=stored.delivery_id,
        at=stored.at,
        allowed=allowed if is_approval else None,
        reason=bounded(reason, MAX_REASON_BYTES) if is_approval and isinstance(reason, str) else "",
        question=bounded(note.text, MAX_QUESTION_BYTES),
        tool=note.tool,
        arguments=note.arguments,
        digest=note.digest,
    )


def with_decision(known: Sequence[Decided], new: Decided) -> tuple[Decided, ...]:
    """The newest of them, with one more."""
    return (*known, new)[-MAX_DECISIONS:]
