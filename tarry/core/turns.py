"""Which turns of a conversation are complete, and where they stand: a subagent begins with whole ones (spec §17.30).

Pure. A turn is one run: what it was given to answer, and everything up to its end. It is complete when it was answered.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from pydantic import BaseModel, Field

KEPT = 128
"""Turns that are remembered, the newest."""


class Turn(NamedTuple):
    """The entries of a run, from its first input up to, not including, `end`; 0: it is open, or was not answered."""

    run: int
    first: int
    end: int = 0


class Turns(BaseModel):
    """The newest turns, oldest first; none from before they were remembered."""

    log: list[Turn] = Field(default_factory=list)

    def begin(self, run: int, first: int) -> None:
        """A run begins, and its first input is entry `first`."""
        self.log = [*self.log, Turn(run, first)][-KEPT:]

    def complete(self, run: int, end: int) -> None:
        """A run was answered, where the transcript has `end` entries."""
        self.log = [turn._replace(end=end) if turn.run == run else turn for turn in self.log]

    def before(self, run: int) -> list[Turn]:
        """The complete turns before that of a run."""
        return [turn for turn in self.log if turn.run < run and turn.end]

    def first_of(self, run: int) -> int | None:
        """The first input of that run; None: it is not remembered."""
        return next((turn.first for turn in self.log if turn.run == run), None)

    def has_forgotten(self, run: int) -> bool:
        """Whether so many turns came since that run that it is not remembered."""
        return len(self.log) == KEPT and run < self.log[0].run

    def shared(self, upto: int) -> Turns:
        """Those of a fork that shares so many entries: a turn that goes on after these is not complete in it."""
        return Turns(log=[turn if turn.end <= upto else turn._replace(end=0) for turn in self.log if turn.first < upto])


def exact_start(turns: Sequence[Turn], head: int, wanted: int | None) -> int | None:
    """The entry at which the newest `wanted` complete turns begin, all of them behind `head`.

    None: that is as many as there are, or there are fewer. `head` is where the context begins; the turns before it, and
    one that it cuts, are told by a summary at most.
    """
    explicit = [turn for turn in turns if turn.first >= head]
    return explicit[-wanted].first if wanted is not None and len(explicit) >= wanted else None
