"""What a model reads and writes: messages, tool calls and usage, in one provider-neutral shape.

Pure. A provider adapter translates these at its edge; nothing else knows a provider's format.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

StopReason = Literal["stop", "tool_use", "length", "refusal", "aborted"]
"""Why a response ended. `aborted`: cut off by a crash or a Stop; never sent to a provider."""


CUTTING_STOPS: tuple[StopReason, ...] = ("length", "refusal")
"""Stops that may end a response anywhere: a call in it that looks complete may not be."""


class Frozen(BaseModel):
    """An immutable value. Unknown fields are ignored, so that older code reads newer data."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class UserMessage(Frozen):
    """What a person or a program said."""

    role: Literal["user"] = "user"
    text: str


class SystemMessage(Frozen):
    """What the harness tells the model of itself: instructions, and how they changed."""

    role: Literal["system"] = "system"
    text: str


class ToolCallRequest(Frozen):
    """One call as the model wrote it. `arguments` is its raw text, valid JSON or not."""

    call_id: str
    name: str
    arguments: str


class AssistantMessage(Frozen):
    """One response of the model. `reasoning` is kept for people and never sent back."""

    role: Literal["assistant"] = "assistant"
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCallRequest, ...] = ()
    stop: StopReason = "stop"

    @property
    def is_empty(self) -> bool:
        """Whether there is neither text nor a call: nothing a provider would take back."""
        return not self.text.strip() and not self.calls


class ToolMessage(Frozen):
    """The result of one call, paired with it by `call_id`."""

    role: Literal["tool"] = "tool"
    call_id: str
    name: str
    text: str
    is_error: bool = False


Message = Annotated[UserMessage | SystemMessage | AssistantMessage | ToolMessage, Field(discriminator="role")]


class ToolSpec(Frozen):
    """A tool as the model is told of it. `parameters` is a JSON Schema of an object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Usage(Frozen):
    """Tokens that requests took, as their provider counted them; those that came from its cache are among the input's.

    `cost` is in US dollars, at the prices of the time; None: not known. A sum is of what is known.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost: Decimal | None = None

    def __add__(self, other: Usage) -> Usage:
        costs = [usage.cost for usage in (self, other) if usage.cost is not None]
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=sum(costs, Decimal(0)) if costs else None,
        )
