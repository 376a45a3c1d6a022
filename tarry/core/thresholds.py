"""When a context is compacted, in tokens, and how much of it stays (spec §11.2). Pure."""

from __future__ import annotations

from tarry.core.messages import Frozen
from tarry.core.model_info import ModelInfo


class Thresholds(Frozen):
    """The sizes that compaction goes by. A model's own, where it names some, win over a run's."""

    reserve: int
    keep_recent: int
    background: int

    def of_model(self, info: ModelInfo) -> Thresholds:
        """These sizes, with those that the model has of its own."""
        own = info.compaction
        if own is None:
            return self
        return Thresholds(
            reserve=self.reserve if own.reserve_tokens is None else own.reserve_tokens,
            keep_recent=self.keep_recent if own.keep_recent_tokens is None else own.keep_recent_tokens,
            background=self.background if own.background_tokens is None else own.background_tokens,
        )

    def must_wait(self, tokens: int, window: int | None) -> bool:
        """Whether so large a context is compacted before it is sent; never where the window is not known."""
        return window is not None and tokens > window - self.reserve

    def is_due(self, tokens: int, window: int | None) -> bool:
        """Whether so large a context is compacted beside the run."""
        return window is not None and self.background > 0 and tokens > window - self.reserve - self.background

    @property
    def summary_tokens(self) -> int:
        """How long a summary may be."""
        return max(self.reserve * 4 // 5, 1)
