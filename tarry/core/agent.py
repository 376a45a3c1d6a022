"""What a conversation has chosen: model, thinking, extensions, tools, instructions, folder (spec §7.7).

Pure. Only names are stored. What they stand for is looked up when it is used, so a name that nothing answers to today
is skipped and counts again once it is installed; no secret is ever part of a choice.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tarry.core.messages import Frozen

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]


class Edits(Frozen):
    """Changes to what the host offers: of its names without `remove`, then with `add`."""

    add: tuple[str, ...] = Field(default=(), max_length=256)
    remove: tuple[str, ...] = Field(default=(), max_length=256)


Names = tuple[str, ...]


class Agent(Frozen):
    """The choices of a conversation; None: what the application has by default."""

    model: str | None = Field(default=None, max_length=200)
    thinking: ThinkingLevel | None = None
    extensions: Names | Edits | None = None
    tools: Names | Edits | None = None
    instructions: str | None = Field(default=None, max_length=64 * 1024)
    cwd: str | None = Field(default=None, max_length=4_096)


class AgentChange(Agent):
    """New choices: a field that is given replaces the whole choice, None takes it back, what is not given stays."""

    def applied_to(self, agent: Agent) -> Agent:
        """The choices after the change."""
        return agent.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})
