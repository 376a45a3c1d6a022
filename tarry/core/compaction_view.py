"""What is to be seen of a compaction (spec §11.3). Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from tarry.core.messages import Frozen

CompactionReason = Literal["manual", "background", "threshold", "overflow"]
"""Who wanted it: a person, or a context that is large, too large to be sent, or was refused by the provider."""


class ContextFull(Frozen):
    """A model request that was not sent: its context would leave too little of the model's window."""

    kind: Literal["full"] = "full"
    tokens: int
    window: int
    model: str = ""


CompactionStatus = Literal[
    "queued",
    "running",
    "retry",
    "waiting",
    "placed",
    "nothing",
    "declined",
    "no_progress",
    "failed",
    "aborted",
    "stale",
]
"""`waiting`: the summary is there, and is placed at the next boundary. From `placed` on it is over."""

OPEN_STATUSES: tuple[CompactionStatus, ...] = ("queued", "running", "retry", "waiting")


class CompactionView(Frozen):
    """A compaction, as anybody may see it. `entry` is the index of the summary, once it is placed."""

    request_id: str
    reason: CompactionReason
    status: CompactionStatus = "queued"
    attempt: int = 0
    retry_at: datetime | None = None
    detail: str = ""
    entry: int | None = None
    before: int = 0
    after: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more becomes of it."""
        return self.status not in OPEN_STATUSES
