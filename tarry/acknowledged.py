"""A result that somebody else is waiting to hear of: told once it is in the history of its call (spec §17.13).

For tools of ours alone: it says to which workflows the call sends what.
"""

from __future__ import annotations

from dataclasses import dataclass

from tarry.core.protocol import PlainSignal
from tarry.tools import ToolResult


@dataclass(frozen=True)
class Acknowledged(ToolResult):
    """A result with `acks`: sent when it has become the outcome of its call, and never when another one has."""

    acks: tuple[PlainSignal, ...] = ()
