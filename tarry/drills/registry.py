"""The drills there are, in the order in which they are listed and played."""

from __future__ import annotations

from collections.abc import Sequence

from tarry.drills.cancelling import cancel
from tarry.drills.kit.drill import Drill
from tarry.drills.list_parked import list_parked
from tarry.drills.matrix.play import crash_matrix
from tarry.drills.reset_turn import reset_turn
from tarry.drills.signalling import signal
from tarry.drills.terminating import terminate

DRILLS: tuple[Drill, ...] = (crash_matrix, list_parked, signal, cancel, terminate, reset_turn)


class UnknownDrill(Exception):
    """There is no drill of that name. One line that names those there are."""


def drills_named(names: Sequence[str]) -> list[Drill]:
    """The drills of these names, each once, in the order of the list.

    Raises:
        UnknownDrill: there is none of one of the names.
    """
    known = {drill.name: drill for drill in DRILLS}
    if (unknown := next((name for name in names if name not in known), None)) is not None:
        raise UnknownDrill(f"there is no drill {unknown!r}: known are {', '.join(known)}")
    return [drill for drill in DRILLS if drill.name in names]
