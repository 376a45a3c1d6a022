"""Who may execute: at most so many turns of background agents at once, in the whole tree (spec §17.4).

Pure. A permit is a turn's from its grant until it rests or ends. Whoever can be served is served at once, so that one
is free only while nobody queues. Turns that were woken come before turns that start; each kind in its order.
"""

from __future__ import annotations

from pydantic import BaseModel, Field


class Permits(BaseModel):
    """Turns by their ids: those that hold a permit, and the two queues."""

    limit: int
    held: list[str] = Field(default_factory=list)
    woken: list[str] = Field(default_factory=list)
    starts: list[str] = Field(default_factory=list)

    @property
    def is_free(self) -> bool:
        """Whether a turn would get a permit at once."""
        return len(self.held) < self.limit

    @property
    def queued(self) -> int:
        """How many turns wait for a permit."""
        return len(self.woken) + len(self.starts)

    def start(self, turn_id: str) -> None:
        """A turn wants to begin."""
        if not self._knows(turn_id):
            self.starts.append(turn_id)

    def wake(self, turn_id: str) -> None:
        """A turn that rested wants to go on."""
        if not self._knows(turn_id):
            self.woken.append(turn_id)

    def free(self, turn_id: str) -> None:
        """A turn rests, ends, or wants none any more: whatever it has, held or queued, it has no longer."""
        for turns in (self.held, self.woken, self.starts):
            if turn_id in turns:
                turns.remove(turn_id)

    def grant(self) -> list[str]:
        """Give out what is free; the turns that hold a permit since, in order."""
        granted: list[str] = []
        while self.is_free and self.queued:
            granted.append((self.woken or self.starts).pop(0))
            self.held.append(granted[-1])
        return granted

    def _knows(self, turn_id: str) -> bool:
        return turn_id in self.held or turn_id in self.woken or turn_id in self.starts
