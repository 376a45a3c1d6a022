"""What a conversation has chosen: model, thinking, extensions, tools, instructions, folder (spec §7.6).

Pure. Only names are stored. What they stand for is looked up when it is used, so a name that nothing answers to today
is skipped and counts again once it is installed; no secret is ever part of a choice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypedDict

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from tarry.core.messages import Frozen

ThinkingLevel = Literal["off", "minimal", "low", "medium", "high", "xhigh", "max"]
"""How much a model thinks before it answers; `off`: not more than it cannot help."""

MAX_INSTRUCTIONS = 32 * 1024
"""Bytes: they go along with every request."""


def _short(text: str | None) -> str | None:
    if text is not None and (size := len(text.encode("utf-8", "replace"))) > MAX_INSTRUCTIONS:
        raise ValueError(f"{size} bytes, {MAX_INSTRUCTIONS} are allowed; put the rest into a file or a tool")
    return text


Names = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(max_length=256)]


class Edits(Frozen):
    """Changes to what the host offers: of its names without `remove`, then with `add`."""

    add: Names = ()
    remove: Names = ()


class Agent(Frozen):
    """The choices of a conversation; None: what the application has by default."""

    model: str | None = Field(default=None, max_length=200)
    thinking: ThinkingLevel | None = None
    extensions: Names | Edits | None = None
    tools: Names | Edits | None = None
    instructions: Annotated[str | None, AfterValidator(_short)] = None
    cwd: str | None = Field(default=None, max_length=4_096)

    def over(self, defaults: Agent) -> Agent:
        """These choices, and of `defaults` what is not chosen; edits stay edits of what the defaults have."""
        chosen = {name: value for name, value in self if value is not None}
        return defaults.model_copy(update=chosen)

    def without_instructions(self) -> Agent:
        """What a call, or a hook, needs of it: instructions are for the model alone, and may be long."""
        return self if self.instructions is None else self.model_copy(update={"instructions": None})


class AgentFields(TypedDict, total=False):
    """The choices by name, for a change: each may be left out."""

    model: str | None
    thinking: ThinkingLevel | None
    extensions: Sequence[str] | Edits | None
    tools: Sequence[str] | Edits | None
    instructions: str | None
    cwd: str | None


class AgentChange(Agent):
    """New choices: a field that is given replaces the whole choice, None takes it back, what is not given stays."""

    model_config = ConfigDict(extra="forbid")

    def applied_to(self, agent: Agent) -> Agent:
        """The choices after the change."""
        return agent.model_copy(update={name: getattr(self, name) for name in self.model_fields_set})

    @model_serializer(mode="wrap")
    def _given(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # None takes a choice back, so what was not given must not be there.
        return {name: value for name, value in dump(self).items() if name in self.model_fields_set}


class ForAgent(Frozen):
    """Goes by the choices of a conversation; those of earlier versions had a list of extensions alone."""

    agent: Agent = Agent()

    @model_validator(mode="before")
    @classmethod
    def _read_extensions(cls, data: Any) -> Any:
        return with_agent(data)


def with_agent(data: Any) -> Any:
    """A payload's data, with the extensions that an earlier version wrote as choices."""
    if isinstance(data, dict) and data.get("extensions") is not None and data.get("agent") is None:
        return {**data, "agent": {"extensions": data["extensions"]}}
    return data


def select(chosen: Sequence[str] | Edits | None, offered: Sequence[str]) -> tuple[str, ...]:
    """The names that are chosen where the host offers these."""
    if chosen is None:
        return tuple(offered)
    if isinstance(chosen, Edits):
        kept = [name for name in offered if name not in chosen.remove]
        return (*kept, *(name for name in chosen.add if name not in kept))
    return tuple(chosen)
