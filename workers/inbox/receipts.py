"""What a person is told of an answer of theirs: what became of it, and never more (spec §23.4)."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

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


@dataclass(frozen=True)
class Told:
    """What became of an answer. `said` is what the person chose, `text` what came of it, one sentence each."""

    kind: Kind
    said: str
    text: str
    task_id: str
    delivery_id: str = ""

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
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
