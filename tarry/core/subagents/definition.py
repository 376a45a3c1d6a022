"""What agents there are to delegate to, and by which settings: the snapshot that a tree of agents keeps (spec §17).

Pure. Files differ from host to host and change; a root conversation goes by what it began with until it is told to
reload.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tarry.core.agent import ThinkingLevel
from tarry.core.messages import Frozen

RuntimeMode = Literal["background", "foreground"]
"""Whether children go on by themselves and are read later, or every delegation waits for its answer."""


class AgentDefinition(Frozen):
    """An agent that work can be delegated to. `prompt` is its instructions."""

    name: str
    description: str
    prompt: str = ""
    tools: tuple[str, ...] | None = Field(default=None, description="a ceiling; empty: none; None: no ceiling")
    model: str | None = None
    thinking: ThinkingLevel | None = None


class SubagentSettings(Frozen):
    """How a tree of agents works."""

    runtime_mode: RuntimeMode = "background"
    max_depth: int = Field(default=3, ge=0, description="of delegation; the root is at depth 0")
    max_concurrent_runs: int = Field(default=4, ge=1, description="turns of background agents that execute at once")
    max_agents: int = Field(default=256, ge=1, description="all agents that a root may ever have")
    max_output_bytes: int = Field(default=51_200, ge=1_024, description="of an answer, a report or an update")
    inherit_extensions: bool = Field(default=False, description="whether children have the extensions of their parent")


class Snapshot(Frozen):
    """The catalogue and the settings of a tree.

    `problems`: what of the files could not be used, a line each with its file. Whatever is wrong is missing from the
    catalogue, and where the settings are wrong all of it is.
    """

    definitions: tuple[AgentDefinition, ...] = ()
    settings: SubagentSettings = SubagentSettings()
    problems: tuple[str, ...] = ()

    @property
    def is_bare(self) -> bool:
        """Whether it does not even say that it has no definitions, as an empty object from a shell."""
        return "definitions" not in self.model_fields_set

    def find(self, name: str) -> AgentDefinition | None:
        """The definition of that name."""
        return next((one for one in self.definitions if one.name == name), None)
