"""Sections of the prompt: what an extension tells the model beside its tools (spec §13.1)."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tarry.core.agent import Agent
from tarry.core.prompt import INSTRUCTIONS

_KEY = re.compile("[A-Za-z][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True)
class PromptTold:
    """What the code of a section is told: whose prompt it is, its choices, and the names of its tools."""

    conversation_id: str
    agent: Agent
    tools: tuple[str, ...]


SectionText = Callable[[PromptTold], Awaitable[str | None] | str | None]


@dataclass(frozen=True)
class Section:
    """A part of the prompt, named by `key`; of two with one key the later one counts, in the place of the earlier.

    Args:
        key: 1 to 64 letters, digits, `_` or `-`, a letter first.
        text: what it says, or code that is asked before every request; None, or nothing but blanks, omits it. Code
            that raises, or that gives no answer in time (4 s for all sections together), keeps what was shown last.
            Text that changes with every request is told anew with every request: give no time of day here.
        tag: put the text between `<key>` and `</key>`.

    Raises:
        ValueError: the key is none, or `instructions`, which is the application's own.
    """

    key: str
    text: str | SectionText
    tag: bool = True

    def __post_init__(self) -> None:
        if not _KEY.fullmatch(self.key):
            raise ValueError(f"section key {self.key!r} must be 1 to 64 letters, digits, _ or -, a letter first")
        if self.key == INSTRUCTIONS:
            raise ValueError(f"section key {self.key!r} is that of the application's own instructions")
