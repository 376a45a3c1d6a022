"""How inputs reach an open run: the conversation tells of mail, the run asks for it at its next boundary.

Pure. The inbox never leaves the conversation; what a run took and did not place goes back (spec §6.2).
"""

from __future__ import annotations

from datetime import datetime

from tarry.core.messages import Frozen
from tarry.core.writes import Write

MAIL = "tarry.mail"
"""Plain signal to an open run: a steer or a write is queued."""
TAKE = "tarry.take"
"""Plain signal to the conversation: a `TakeInput`."""
BOUNDARY = "tarry.boundary"
"""Plain signal to the run, in answer: a `Boundary`."""


class TakeInput(Frozen):
    """A run is at its boundary `number`, and takes what is placed there. `only_look`: it takes nothing."""

    generation_id: str
    number: int
    only_look: bool = False


class Taken(Frozen):
    """A steer, or a write, for a run to place."""

    request_id: str
    content: str
    at: datetime
    write: Write | None = None


class Boundary(Frozen):
    """What the run gets at its boundary `number`, and how much it could take is queued still.

    On a look: how much is queued that a continuation gives way to.
    """

    number: int
    items: tuple[Taken, ...] = ()
    queued: int = 0
