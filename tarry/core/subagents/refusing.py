"""How a tree of agents says no.

Pure. A refusal changes nothing: whoever raises one has checked everything before it changed anything.
"""

from __future__ import annotations

from tarry.core.subagents.protocol import Refusal, RefusalCode


class Refused(Exception):
    """What was asked for is not done; the refusal says why, and what to do instead."""

    def __init__(self, code: RefusalCode, text: str) -> None:
        super().__init__(text)
        self.refusal = Refusal(code=code, text=text)
