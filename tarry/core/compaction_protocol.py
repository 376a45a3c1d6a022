"""Names and payloads of compaction: what is asked for, what the activity is told and answers, what is shown (spec §11).

Pure.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, RootModel

from tarry.core.agent import ForAgent
from tarry.core.compaction_view import CompactionReason
from tarry.core.ledger import Ledger
from tarry.core.messages import Frozen, Usage
from tarry.core.protocol import MAX_REQUEST_ID, ModelFailure, RunSettings
from tarry.core.thresholds import Thresholds
from tarry.core.transcript import Position

COMPACT = "tarry.compact"
"""Update and plain signal to a conversation, with a `CompactInput`; and the activity that makes a summary."""

LARGE = "tarry.large"
"""Plain signal of an open run to its conversation: a `LargeInput`."""

MAX_INSTRUCTIONS = 16 * 1024


class CompactInput(Frozen):
    """A person wants the context compacted. `instructions` say what the summary is to attend to."""

    request_id: str = Field(default="", max_length=MAX_REQUEST_ID, description="names it; empty: a new one is drawn")
    instructions: str = Field(default="", max_length=MAX_INSTRUCTIONS)
    settings: RunSettings = RunSettings()


class LargeInput(Frozen):
    """The context of an open run, up to `cutoff`, has grown so large that compaction is due."""

    generation_id: str
    cutoff: Position


class SummaryInput(ForAgent):
    """The pinned request for a summary: ids and a cutoff, never entries. The same again makes the same request."""

    conversation_id: str
    generation_id: str = Field(description="whose entries come from `run_start` on; empty: none do")
    run_start: Position
    cutoff: Position
    context_start: Position | None = None
    reason: CompactionReason
    instructions: str = ""
    sizes: Thresholds
    idle_timeout: float


class Summary(Frozen):
    """What stands for every entry before `head`; `before` and `after` are estimates of the context, in tokens."""

    kind: Literal["summary"] = "summary"
    text: str
    head: Position
    before: int = 0
    after: int = 0
    usage: Usage = Usage()
    model: str = ""
    spent: Ledger = Field(default=Ledger(), description="by every attempt at it")
    problems: tuple[str, ...] = Field(default=(), description="hooks that failed, a line each")


class NoSummary(Frozen):
    """There is none, and asking again would not change that.

    `nothing` to compact, `declined` by a hook, `no_progress` since it would be no shorter, or `failed`.
    """

    kind: Literal["none"] = "none"
    why: Literal["nothing", "declined", "no_progress", "failed", "aborted"]
    detail: str = ""
    usage: Usage = Usage()
    model: str = Field(default="", description="that was asked; empty: none was")
    spent: Ledger = Field(default=Ledger(), description="by every attempt at it")
    problems: tuple[str, ...] = ()


class SummaryAnswer(RootModel[Summary | NoSummary | ModelFailure]):
    """What the activity answers."""
