"""Forks: conversations that begin with the entries of another one and share its pages (spec §16).

Pure. Whoever forks reads the parent, an open run of it included, and puts together what the fork carries; from then on
the two know nothing of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarry.core.agent import Agent
from tarry.core.choices import Choices
from tarry.core.conversation import ConversationState
from tarry.core.documents import Documents, Kept
from tarry.core.lineage import Parent
from tarry.core.messages import Frozen
from tarry.core.protocol import digest
from tarry.core.text import canonical_json
from tarry.core.transcript import Branch, Entry, NoSuchPosition, PageRef, Position, Transcript
from tarry.core.turns import Turns
from tarry.core.views import GenerationView

FORK_SOURCE = "tarry.fork-source"
"""Query of a conversation: its `ForkSource`. Needs a worker, but no application."""


class ForkSource(Frozen):
    """What a fork of a conversation is made of, the entries of its tail and of its open run aside."""

    nonce: str
    runs: int
    pages: tuple[PageRef, ...]
    end: Position
    documents: Documents
    choices: Choices
    open_generation: str | None = None
    began_with: int = 0
    turns: Turns = Turns()

    @classmethod
    def of(cls, state: ConversationState) -> ForkSource:
        """As a conversation stands."""
        return cls(
            nonce=state.nonce,
            runs=state.runs,
            pages=tuple(state.transcript.pages),
            end=state.transcript.end,
            documents=state.documents,
            choices=state.choices,
            open_generation=state.open.generation_id if state.open else None,
            began_with=state.open.began_with if state.open else 0,
            turns=state.turns,
        )

    def with_session(self, root: Documents) -> ForkSource:
        """With the documents of its session, which another conversation keeps: as they are now.

        The entries by which they can be rewound are none of this conversation.
        """
        kept = {id: _timeless(one) for id, one in root.kept.items() if one.rules.scope == "session"}
        revision = max(root.revision, self.documents.revision)
        documents = Documents(revision=revision, kept={**self.documents.kept, **kept})
        return self.model_copy(update={"documents": documents})

    def choices_with(self, run: GenerationView | None) -> Choices:
        """Those of the conversation, placed where its open run took them up."""
        choices = self.choices.model_copy()
        if run is not None:
            choices.place(run.taken_up, self.began_with, run.end.index)
        return choices


@dataclass(frozen=True)
class Shared:
    """The entries that a fork begins with: pages, then the part of a tail that is copied."""

    pages: Sequence[PageRef]
    tail: Sequence[Entry]

    def transcript(self, nonce: str) -> Transcript:
        """The transcript of the fork.

        Raises:
            NoSuchPosition: the entries do not follow each other: the parent has moved while it was read.
        """
        start = self.pages[0].first if self.pages else Position(index=self.tail[0].index, chain=self.tail[0].prev)
        transcript = Transcript(start=start)
        transcript.extend(list(self.pages), list(self.tail))
        if start.index != 0:
            raise NoSuchPosition(f"the entries before {start.index} are missing")
        transcript.branch = Branch(index=transcript.end.index, nonce=nonce)
        return transcript


@dataclass(frozen=True)
class Origin:
    """What is to be forked: a conversation `at` an entry, None for as it is now; its choices, if others, and its owner.

    One with an owner is no root: the documents of its session are those of its owner's.
    """

    conversation_id: str
    at: int | None = None
    agent: Agent | None = None
    owner: str = ""

    def parent(self, nonce: str, at: int) -> Parent:
        """How the fork names it."""
        chosen = "" if self.agent is None else digest(canonical_json(self.agent.model_dump(mode="json")))
        return Parent(conversation_id=self.conversation_id, nonce=nonce, at=at, chosen=chosen)

    def is_of(self, known: Parent, nonce: str) -> bool:
        """Whether a fork with that parent is the one that is to be made; of now, it may have been made earlier."""
        return known == self.parent(nonce, known.at if self.at is None else self.at)

    def documents(self, of: Documents, end: Position) -> Documents:
        """Those that the fork has, each by its policy."""
        found = of.forked(self.seen(end))
        kept = {id: one for id, one in found.kept.items() if not self.owner or one.rules.scope != "session"}
        return found.model_copy(update={"kept": kept})

    def seen(self, end: Position) -> int:
        """The entry by which documents and choices count: the last shared one, or what would come next."""
        return end.index if self.at is None else self.at


def _timeless(kept: Kept) -> Kept:
    """What a document is now, as if it had always been so."""
    states = tuple(state.model_copy(update={"entry": 0}) for state in kept.states[-1:])
    return kept.model_copy(update={"states": states, "folded": "", "cut": None}) if states else kept


def split(pages: Sequence[PageRef], at: int) -> tuple[list[PageRef], PageRef | None]:
    """The pages that end at entry `at` or before; and the one in which it is, when that goes on after it."""
    whole = [page for page in pages if page.last.index <= at + 1]
    return whole, next((page for page in pages if page.first.index <= at and page.last.index > at + 1), None)


def cut(page: PageRef, entries: Sequence[Entry]) -> PageRef:
    """The same page, of which only its first `entries` count."""
    head = next((entry.head for entry in reversed(entries) if entry.head is not None), None)
    size = sum(entry.size() for entry in entries)
    return page.model_copy(update={"last": entries[-1].position, "size": size, "head": head})


def forked(
    source: ForkSource, run: GenerationView | None, shared: Shared, origin: Origin, nonce: str
) -> ConversationState:
    """What a fork carries when it starts. No run, inbox, usage, commit or request id of its parent is in it.

    Its runs are numbered on from those of its parent. Raises as `Shared.transcript`.
    """
    transcript = shared.transcript(nonce)
    return ConversationState(
        nonce=nonce,
        runs=source.runs,
        parent=origin.parent(source.nonce, transcript.end.index - 1),
        transcript=transcript,
        documents=origin.documents(source.documents, transcript.end),
        choices=source.choices_with(run).forked(origin.seen(transcript.end), origin.agent),
        turns=source.turns.shared(transcript.end.index),
        by_boundary=True,
    )
