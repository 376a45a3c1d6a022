"""What a conversation and its open run answer when they are asked how they stand.

Pure.
"""

from __future__ import annotations

from pydantic import Field

from tarry.core.agent import Agent
from tarry.core.compaction_view import CompactionView
from tarry.core.glances import InboxItem, Retry
from tarry.core.ledger import Ledger
from tarry.core.lineage import Parent
from tarry.core.messages import Frozen, Usage
from tarry.core.transcript import PageRef, Position


class Refusal(Frozen):
    """Why an input by Temporal signal was refused; `request_id` as far as it could be read."""

    request_id: str = ""
    reason: str


class ConversationView(Frozen):
    """A conversation as its workflow knows it; the open run's entries are in its generation."""

    conversation_id: str
    nonce: str
    end: Position
    pages: tuple[PageRef, ...]
    open_generation: str | None
    queued: tuple[str, ...]
    runs: int
    usage: Usage
    spent: Ledger = Field(default=Ledger(), description="by model and tool, those of an open run aside")
    refusals: tuple[Refusal, ...] = Field(
        default=(), description="the newest inputs by Temporal signal that were refused, and why"
    )
    documents: int = Field(default=0, description="counts the commits that changed any document")
    compactions: tuple[CompactionView, ...] = Field(
        default=(), description="those that are not over, and the newest of those that are; oldest first"
    )
    inbox: tuple[InboxItem, ...] = Field(default=(), description="the oldest of what is queued")
    placed: tuple[str, ...] = Field(default=(), description="request ids of what the open run answers")
    agent: Agent = Field(default=Agent(), description="what the conversation has chosen")
    parent: Parent | None = Field(default=None, description="of a fork: whose entries it begins with")
    tree: str = Field(default="", description="id of the tree of agents that it is in; empty: it knows of none")


class GenerationView(Frozen):
    """Where a run stands; `held` says why it waits for a retry."""

    generation_id: str
    conversation_id: str
    start: Position
    end: Position
    pages: tuple[PageRef, ...]
    turn: int
    phase: str
    held: str = ""
    usage: Usage = Usage()
    placed: tuple[str, ...] = Field(default=(), description="request ids of the steers that it placed")
    spent: Ledger = Ledger()
    places: dict[str, int] = Field(default={}, description="of steers and writes: the entry, or -1 for a stale write")
    retry: Retry | None = Field(default=None, description="when a request that failed is sent again, and why")
    compaction: CompactionView | None = Field(default=None, description="the one that its next request waits for")
    after_run: bool = Field(default=False, description="whether hooks are to be told of its end")
    taken_up: dict[int, int] = Field(
        default_factory=dict, description="at which entries it was told of new choices, by their number"
    )
