"""How inputs reach an open run: the conversation tells of mail, the run asks for it at its next boundary.

Pure. The inbox never leaves the conversation; what a run took and did not place goes back (spec §6.2).
"""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from signals.tokens import Signal
from tarry.core.messages import Frozen
from tarry.core.writes import Write

MAIL = "tarry.mail"
"""Plain signal to an open run, with a `MailTold`: a steer or a write is queued."""
TAKE = "tarry.take"
"""Plain signal to the conversation: a `TakeInput`."""
BOUNDARY = "tarry.boundary"
"""Plain signal to the run, in answer: a `Boundary`."""


class MailTold(Frozen):
    """What is queued. `steers`: there are inputs of a person among it."""

    steers: bool = False


class Steered(BaseModel):
    """A steer is queued, and is placed when this round of calls has ended."""


STEERED = Signal("tarry.steered", 1, Steered, built_in=True)
"""What an open call is told under `STEER_KEY` whose tool declares that it hears of steers."""
STEER_KEY = "steer"


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
