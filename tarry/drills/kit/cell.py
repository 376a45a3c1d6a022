"""One cell of the crash matrix: what calls of one replay policy came to at one crash point."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tarry.core.messages import Frozen

Policy = Literal["unsafe", "safe", "keyed", "reconciled"]


class Cell(Frozen):
    """What was counted outside, and what the model read.

    An effect is a duplicate when its call had one already.
    """

    policy: Policy
    point: str
    calls: int = Field(description="calls that were at this point when the worker was killed")
    runs: int = Field(description="runs of the tool's own code that began, in all of them together")
    effects: int = Field(description="effects that happened outside, in all of them together")
    duplicates: int
    read: dict[str, int] = Field(description="how many calls' results the model read as what: `Opened`, or a code")
