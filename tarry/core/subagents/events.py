"""What happened in a tree of agents: the newest events, numbered (spec §17.9). Pure."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, Field

from tarry.core.subagents.protocol import AgentEvent, EventKind

KEPT = 200
MAX_DETAIL = 200


class Events(BaseModel):
    """The newest events, oldest first."""

    newest: list[AgentEvent] = Field(default_factory=list)
    count: int = 0

    def add(self, kind: EventKind, path: str, now: datetime, *, turn_id: str = "", detail: str = "") -> None:
        """Something happened to the agent at `path`."""
        self.count += 1
        event = AgentEvent(number=self.count, at=now, kind=kind, path=path, turn_id=turn_id, detail=detail[:MAX_DETAIL])
        self.newest = [*self.newest, event][-KEPT:]
