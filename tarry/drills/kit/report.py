"""What a drill tells when it is over, for a person and for a program alike."""

from __future__ import annotations

from pydantic import Field

from tarry.core.messages import Frozen
from tarry.drills.kit.cell import Cell


class StepReport(Frozen):
    """One step of a drill, over."""

    title: str
    did: tuple[str, ...] = Field(description="the exact command lines, and in words what was no command")
    expected: str
    found: tuple[str, ...]
    ok: bool
    seconds: float = Field(description="how long it took")


class DrillReport(Frozen):
    """One drill, over. It is ok when every step is and nothing else went wrong."""

    name: str
    title: str
    ok: bool
    problem: str = Field(description="why it ended before its end; empty when it did not")
    seconds: float
    state: str = Field(description="folder of what is left: the server's state, logs, effects")
    steps: tuple[StepReport, ...]
    matrix: tuple[Cell, ...] = Field((), description="what each replay policy came to at each crash point it tried")
