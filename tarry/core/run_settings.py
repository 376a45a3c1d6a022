"""The settings that a run is pinned to, and the choices of its conversation with them.

Pure.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from tarry.core.agent import Agent, with_agent
from tarry.core.messages import Frozen
from tarry.core.output import OutputSchema
from tarry.core.thresholds import Thresholds

QueueMode = Literal["one-at-a-time", "all"]
"""How many of the steers, or of the follow-ups, that wait at a boundary are placed there."""


class RunSettings(Frozen):
    """The settings a run is pinned to when its input is admitted; later deploys do not change them.

    Bounded, since they also come by Temporal signal, from any shell: no timer may be asked to be negative or endless.
    """

    heartbeat_timeout: float = Field(
        default=8.0, ge=1, le=600, description="seconds without a heartbeat after which a worker counts as lost"
    )
    restart_limit: int = Field(default=5, ge=1, le=1_000, description="lost workers in a row after which work is held")
    provider_retries: int = Field(
        default=3, ge=0, le=20, description="retries of a model request after provider errors"
    )
    model_idle_timeout: float = Field(
        default=60.0, ge=1, le=3_600, description="seconds of silence after which a response counts as stalled"
    )
    max_turns: int = Field(default=100, ge=1, le=10_000, description="model responses in one run")
    turnover_events: int = Field(
        default=1_000, ge=10, le=10_000, description="history events after which a workflow continues as new"
    )
    agent: Agent | None = Field(
        default=None, description="what the conversation has chosen; with an input: choices that come with it"
    )
    steering_mode: QueueMode = Field(
        default="one-at-a-time", description="how many steers a boundary places; that of the oldest one counts"
    )
    follow_up_mode: QueueMode = Field(
        default="one-at-a-time", description="how many follow-ups one run answers; that of the oldest one counts"
    )
    output: OutputSchema | None = Field(default=None, description="what the answer must be; None: text")
    compaction: bool = Field(default=True, description="whether a context that grows too large is compacted by itself")
    reserve_tokens: int = Field(
        default=16_384, ge=0, le=10_000_000, description="of a model's window that a request leaves free"
    )
    keep_recent_tokens: int = Field(
        default=20_000, ge=0, le=10_000_000, description="that a compaction keeps as they are"
    )
    background_tokens: int = Field(
        default=32_768, ge=0, le=10_000_000, description="before the limit, where compaction begins beside the run"
    )

    @property
    def sizes(self) -> Thresholds:
        """The sizes that compaction goes by."""
        return Thresholds(
            reserve=self.reserve_tokens, keep_recent=self.keep_recent_tokens, background=self.background_tokens
        )

    @model_validator(mode="before")
    @classmethod
    def _read_extensions(cls, data: Any) -> Any:
        return with_agent(data)

    @property
    def chosen(self) -> Agent:
        """The choices that count."""
        return self.agent or Agent()

    def for_agent(self, agent: Agent) -> RunSettings:
        """The same with these choices."""
        return self.model_copy(update={"agent": agent})

    def for_calls(self) -> RunSettings:
        """The same for what a run starts: without instructions and output, which only its own requests need."""
        return self.model_copy(update={"agent": self.chosen.without_instructions(), "output": None})
