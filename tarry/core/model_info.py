"""What is known of a model beside its name: how much it takes, how it thinks and what it costs.

Pure. Costs are exact decimals, computed where the request was made, so that a later price rewrites no history.
"""

from __future__ import annotations

from decimal import Decimal

from pydantic import Field

from tarry.core.agent import ThinkingLevel
from tarry.core.messages import Frozen, Usage

LEVELS: tuple[ThinkingLevel, ...] = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
"""From least to most."""

_MILLION = Decimal(1_000_000)


class Prices(Frozen):
    """US dollars for a million tokens; `cached` is for the part of the input that came from the provider's cache."""

    input: Decimal = Field(ge=0, lt=1_000_000, decimal_places=6)
    output: Decimal = Field(ge=0, lt=1_000_000, decimal_places=6)
    cached: Decimal | None = Field(
        default=None, ge=0, lt=1_000_000, decimal_places=6, description="None: as any other input"
    )

    def cost(self, usage: Usage) -> Decimal:
        """What a request with that usage costs, in US dollars, exactly. Cached tokens are among the input's."""
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_price = self.input if self.cached is None else self.cached
        parts = (
            (usage.input_tokens - cached) * self.input,
            cached * cached_price,
            usage.output_tokens * self.output,
        )
        # Plus zero: a whole number is written without an exponent.
        return (sum(parts, Decimal(0)) / _MILLION).normalize() + 0


class OwnThresholds(Frozen):
    """Sizes, in tokens, by which conversations with a model are compacted; None: as the settings say."""

    reserve_tokens: int | None = Field(default=None, ge=0, le=10_000_000)
    keep_recent_tokens: int | None = Field(default=None, ge=0, le=10_000_000)
    background_tokens: int | None = Field(default=None, ge=0, le=10_000_000)


class ModelInfo(Frozen):
    """The facts of a model; whatever is not known is None."""

    context_window: int | None = Field(default=None, gt=0, description="tokens of a request and its response together")
    max_output: int | None = Field(default=None, gt=0, description="tokens of a response")
    prices: Prices | None = None
    structured: bool | None = Field(
        default=None,
        description="whether its provider enforces the form of an answer; None: as its adapter knows",
    )
    compaction: OwnThresholds | None = None
    thinking: tuple[ThinkingLevel, ...] | None = Field(
        default=None, description="the levels that it takes, `off` aside; (): none at all"
    )

    def thinks(self, level: ThinkingLevel, otherwise: tuple[ThinkingLevel, ...]) -> ThinkingLevel:
        """`level` as far as the model takes it: the next lower one that it takes, else its lowest; or `off`.

        `otherwise` is what such a model takes as a rule, for one of which it is not known.
        """
        known = otherwise if self.thinking is None else self.thinking
        taken: list[ThinkingLevel] = [one for one in LEVELS if one in known]
        if level == "off" or not taken:
            return "off"
        lower: list[ThinkingLevel] = [one for one in taken if LEVELS.index(one) <= LEVELS.index(level)]
        return lower[-1] if lower else taken[0]
