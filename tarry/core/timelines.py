"""Which timeline a run is in: each reset of its workflow begins another one (spec §1.7). Pure."""

from __future__ import annotations

from pydantic import BaseModel


class Timeline(BaseModel):
    """`id` is empty before any reset.

    `has_parted`: nothing that an earlier timeline went on with is left, for the model to meet, or to be stopped.
    """

    id: str = ""
    has_parted: bool = True

    def enter(self, id: str) -> None:
        """An answer has come in this timeline; empty: in one that no reset has begun, or that has turned over since."""
        if id and id != self.id:
            self.id, self.has_parted = id, False
