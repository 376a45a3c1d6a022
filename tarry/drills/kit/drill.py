"""What a drill is: a name, a title and what is done."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tarry.drills.kit.ground import APP, Ground

Play = Callable[[Ground], Awaitable[None]]


@dataclass(frozen=True)
class Drill:
    """A drill. `title` is one sentence; `app` is what its workers serve, as `module:attribute`."""

    name: str
    title: str
    play: Play
    app: str = APP


def drill(name: str, *, app: str = APP) -> Callable[[Play], Drill]:
    """Declare a coroutine function as a drill; its docstring's first line is the title."""

    def declare(play: Play) -> Drill:
        return Drill(name, (inspect.getdoc(play) or name).splitlines()[0], play, app)

    return declare
