"""The seam to a language model: what an adapter receives, streams, returns and raises.

An adapter makes exactly one HTTP request per `respond` and never retries: retries are durable and
belong to the generation (spec §6.3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, Protocol

from pydantic import Field

from tarry.core.agent import ThinkingLevel
from tarry.core.messages import AssistantMessage, Frozen, Message, ToolSpec, Usage
from tarry.core.model_info import ModelInfo, OwnThresholds, Prices
from tarry.core.output import OutputSchema

__all__ = [
    "Model",
    "ModelError",
    "ModelErrorKind",
    "ModelInfo",
    "ModelRequest",
    "ModelResponse",
    "NoModel",
    "OwnThresholds",
    "Prices",
    "info_of",
    "priced",
]

ModelErrorKind = Literal["retryable", "permanent", "overflow"]
"""`retryable`: the same request may succeed later. `overflow`: the context is too long."""


class ModelRequest(Frozen):
    """One request. `messages` are already valid for a strict provider (spec §6.4)."""

    messages: tuple[Message, ...]
    instructions: str = ""
    tools: tuple[ToolSpec, ...] = ()
    session_id: str = Field(description="stable for a conversation; a provider may use it as a cache key")
    idle_timeout: float = Field(
        default=60.0, description="seconds without a byte after which the stream counts as stalled"
    )
    output: OutputSchema | None = Field(
        default=None, description="what an answer must be; only for a model whose `info` says that it is enforced"
    )
    thinking: ThinkingLevel = Field(
        default="off", description="as it was chosen; an adapter sends what the model takes"
    )
    max_output: int | None = Field(default=None, gt=0, description="tokens of a response; None: as the model has it")
    purpose: Literal["turn", "summary"] = Field(
        default="turn", description="a turn of a conversation, or a summary of it (spec §11)"
    )


class ModelResponse(Frozen):
    """A whole response, with what it cost."""

    message: AssistantMessage
    usage: Usage = Usage()


class ModelError(Exception):
    """The request brought no response.

    `retry_after` is the provider's wish in seconds from now, None when it said nothing; `partial` is
    the text streamed before the failure, `usage` what it cost as far as the provider told.
    """

    def __init__(
        self,
        text: str,
        kind: ModelErrorKind,
        *,
        retry_after: float | None = None,
        partial: str = "",
        usage: Usage | None = None,
    ) -> None:
        super().__init__(text)
        self.text = text
        self.kind: ModelErrorKind = kind
        self.retry_after = retry_after
        self.partial = partial
        self.usage = usage


class NoModel(LookupError):
    """No model answers to the name that was chosen, or none was chosen; its text says what there is."""


class Model(Protocol):
    """A language model. Implementations hold no conversation state.

    One that has an attribute `info: ModelInfo` tells with it what it takes and costs.
    """

    @property
    def name(self) -> str:
        """`provider/model`, as it is recorded with usage."""
        ...

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        """Send one request and return the whole response; call `on_text` with each piece of text.

        Raises:
            ModelError: no response, or only a part of one.
        """
        ...


def priced(model: Model, usage: Usage) -> Usage:
    """The usage with its cost, by the prices that the model has today; as it is when these are not known."""
    prices = info_of(model).prices
    if usage.cost is not None or prices is None:
        return usage
    return usage.model_copy(update={"cost": prices.cost(usage)})


def info_of(model: Model) -> ModelInfo:
    """What a model tells of itself; nothing is known of one that has no `info`."""
    info = getattr(model, "info", None)
    return info if isinstance(info, ModelInfo) else ModelInfo()
