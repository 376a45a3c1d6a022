"""Whether workers are needed, as it is told to whoever switches them on and off (spec §9.3)."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import Field

from tarry.core.messages import Frozen

Why = Literal["", "backlog", "running", "deadline"]


class WakePlan(Frozen):
    """Whether workers are needed."""

    active: bool = Field(description="they are needed now")
    at: datetime | None = Field(
        default=None, description="when they must be back at the latest; None while active, and when nothing is due"
    )
    why: Why = Field(
        default="", description="`backlog`: tasks wait for a worker; `running`: work runs; `deadline`: one has passed"
    )
