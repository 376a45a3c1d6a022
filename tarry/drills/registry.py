"""The drills there are, in the order in which they are listed and played."""

from __future__ import annotations

from collections.abc import Sequence

from tarry.drills.cancel import cancel
from tarry.drills.kill_worker import kill_worker
from tarry.drills.kit.drill import Drill
from tarry.drills.list_parked import list_parked
from tarry.drills.lose_store import lose_store
from tarry.drills.matrix.play import crash_matrix
from tarry.drills.pause import pause
from tarry.drills.reset_call import reset_call
from tarry.drills.reset_signals import reset_signals
from tarry.drills.reset_turn import reset_turn
from tarry.drills.restart_server import restart_server
from tarry.drills.signal import signal
from tarry.drills.terminate import terminate

DRILLS: tuple[Drill, ...] = (
    crash_matrix,
    list_parked,
    signal,
    cancel,
    terminate,
    reset_turn,
    reset_signals,
    reset_call,
    pause,
    kill_worker,
    restart_server,
    lose_store,
)


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
