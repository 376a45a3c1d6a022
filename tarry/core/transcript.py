"""The transcript of a conversation: immutable, chained entries, sealed into pages as it grows.

Pure: time comes in as `at`. Each entry carries `chain = sha256(previous chain + canonical JSON of its
message)`, so that a chain names one entry *and* all before it: a reset, a fork or a reused id never reads
another timeline's entries (spec §6.1). A fork shares chains with its parent up to its last shared entry; that of its
first own one covers its nonce too, and so do all that follow.

Chains and sizes are computed again when a workflow is replayed, with the code of that day. So a chain covers
only what a model reads, defaults left out, and a size only content: a field added later changes neither.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from signals.box import Receipt
from tarry.core.ledger import Ledger
from tarry.core.messages import AssistantMessage, Frozen, Message, ToolMessage, Usage, UserMessage
from tarry.core.prompt import PromptPatch
from tarry.core.text import canonical_json

EntryKind = Literal["user", "assistant", "tool_result", "note", "system", "reset", "compaction", "seed"]
"""`note`: for people only, never sent to a model. `reset`, `compaction`, `seed` are head markers: see `Draft.head`."""

# Both decide on a command when a workflow is replayed: change them only behind `workflow.patched`.
PAGE_BYTES = 64 * 1024
"""A tail above this is sealed into a page (spec §8.2)."""
ENTRY_OVERHEAD = 300
"""Bytes an entry counts for beside its content."""


class Position(Frozen):
    """A place in a transcript: how many entries come before it, and the chain of the last of them."""

    index: int = 0
    chain: str = ""


class ToolFacts(Frozen):
    """What is recorded of a call beside the text the model reads."""

    task_id: str = ""
    code: str = ""
    details: Any = None
    diagnostics: tuple[str, ...] = ()
    duration_ms: int = 0
    full_output: str = Field(default="", description="reference of the whole output in the store, when it was cut")
    receipts: tuple[Receipt, ...] = Field(default=(), description="the newest of what was delivered to it, 8 KiB")
    spent: Ledger = Field(default=Ledger(), description="that it reported, its nested calls and tasks included")


class Draft(Frozen):
    """An entry before it has its place."""

    kind: EntryKind
    at: datetime
    run: int = 0
    message: Message | None = None
    note: str = ""
    tool: ToolFacts | None = None
    model: str = ""
    usage: Usage | None = None
    head: Position | None = Field(
        default=None,
        description="of a head marker: the place from which on entries are still context; a reset keeps none before it",
    )
    prompt: PromptPatch | None = Field(default=None, description="of a system entry: what it says; `note` sums it up")


class Entry(Draft):
    """A placed entry. `index` counts from 0; `prev` is the chain before it."""

    index: int
    prev: str
    chain: str

    @property
    def position(self) -> Position:
        """The place right after this entry."""
        return Position(index=self.index + 1, chain=self.chain)

    def size(self) -> int:
        """Bytes of its content, and a lump sum for the rest."""
        facts = self.tool or ToolFacts()
        parts = [self.note, *facts.diagnostics]
        if facts.details is not None:
            parts.append(canonical_json(facts.details))
        parts += [receipt.model_dump_json() for receipt in facts.receipts]
        patch = 0 if self.prompt is None else self.prompt.size()
        if self.message is not None:
            parts.append(self.message.text)
        if isinstance(self.message, AssistantMessage):
            parts += [self.message.reasoning, *(call.arguments for call in self.message.calls)]
        return ENTRY_OVERHEAD + patch + sum(len(part.encode()) for part in parts)


class PageRef(Frozen):
    """A sealed page: the entries from `first` up to, not including, `last.index`, behind `ref` in the store.

    A fork may share less of a page than `ref` leads to: what comes after `last` is not its own.
    """

    ref: str
    first: Position
    last: Position
    size: int
    head: Position | None = Field(default=None, description="of the newest head marker in it")
    level: int = Field(default=0, description="0: it holds entries; else references of pages, one level lower")


class Branch(Frozen):
    """Where the own entries of a fork begin, and the nonce that the chain of the first one covers."""

    index: int
    nonce: str


class Page(Frozen):
    """What a page's reference leads to."""

    entries: tuple[Entry, ...]


class Slice(Frozen):
    """Entries that end at the place asked for; or, when that place is sealed, the page that holds it."""

    entries: tuple[Entry, ...] = ()
    page: PageRef | None = None


class NoSuchPosition(LookupError):
    """The transcript has no entry with that index and chain: it belongs to another timeline."""


def _before(entry: Entry) -> Position:
    return Position(index=entry.index, chain=entry.prev)


def sealed(ref: str, entries: Sequence[Entry]) -> PageRef:
    """The page of these entries, once they stand behind `ref`."""
    return PageRef(
        ref=ref,
        first=_before(entries[0]),
        last=entries[-1].position,
        size=sum(entry.size() for entry in entries),
        head=next((entry.head for entry in reversed(entries) if entry.head is not None), None),
    )


def place(draft: Draft, after: Position, nonce: str = "") -> Entry:
    """Give `draft` its index and chain; `nonce` is of the fork whose first entry it is."""
    message = None if draft.message is None else draft.message.model_dump(mode="json", exclude_defaults=True)
    fields: list[Any] = [after.index, draft.kind, draft.run, message]
    # Only then: the chains of all other entries are as they were before there were heads and prompts.
    if draft.head is not None:
        fields.append(draft.head.index)
    if draft.prompt is not None:
        fields.append(draft.prompt.model_dump(mode="json", exclude_defaults=True))
    if nonce:
        fields.append(nonce)
    chain = hashlib.sha256((after.chain + canonical_json(fields)).encode()).hexdigest()
    return Entry(**dict(draft), index=after.index, prev=after.chain, chain=chain)


class Transcript(BaseModel):
    """Pages, then the open tail. Carried over a turn of the run as it is."""

    start: Position = Position()
    pages: list[PageRef] = Field(default_factory=list)
    tail: list[Entry] = Field(default_factory=list)
    tail_bytes: int = 0
    branch: Branch | None = Field(default=None, description="None: it shares no entries with a conversation before it")

    @property
    def end(self) -> Position:
        """The place after the newest entry."""
        return self.tail[-1].position if self.tail else self.tail_start

    @property
    def tail_start(self) -> Position:
        """The place between the pages and the tail."""
        return self.pages[-1].last if self.pages else self.start

    @property
    def context_start(self) -> Position | None:
        """The place that the newest head marker names; None: there is no marker, and every entry is context."""
        heads = [entry.head for entry in reversed(self.tail)] + [page.head for page in reversed(self.pages)]
        return next((head for head in heads if head is not None), None)

    @property
    def wants_sealing(self) -> bool:
        """Whether the tail has outgrown `PAGE_BYTES`."""
        return self.tail_bytes > PAGE_BYTES

    def append(self, draft: Draft) -> Entry:
        """Place `draft` after the newest entry and return it."""
        end = self.end
        is_first = self.branch is not None and self.branch.index == end.index
        entry = place(draft, end, self.branch.nonce if self.branch is not None and is_first else "")
        self._add(entry)
        return entry

    def extend(self, pages: list[PageRef], entries: list[Entry]) -> None:
        """Take over what a run returned.

        Entries that follow by index under another chain are placed anew: a replay after a deploy may chain otherwise.

        Raises:
            NoSuchPosition: it does not continue this transcript; nothing was taken.
        """
        if pages and self.tail:
            raise NoSuchPosition("seal the open tail before taking over pages")
        if not pages and entries and entries[0].index == self.end.index and entries[0].prev != self.end.chain:
            for entry in entries:
                self.append(Draft.model_validate(dict(entry)))
            return
        end = self.end
        for first, last in [(page.first, page.last) for page in pages] + [(_before(e), e.position) for e in entries]:
            if first != end:
                raise NoSuchPosition(f"what starts at {first.index} does not continue {end.index}")
            end = last
        self.pages.extend(pages)
        for entry in entries:
            self._add(entry)

    def seal(self, page: PageRef) -> None:
        """Replace the head of the tail by the page it was written to; a repeat does nothing.

        The page is taken at its word: whoever wrote it read the entries by their chains, and a refusal here would
        wedge a workflow that chains otherwise since a deploy. What is left of the tail is then placed behind it anew.
        """
        if page.last.index <= self.tail_start.index:
            return
        kept = [entry for entry in self.tail if entry.index >= page.last.index]
        self.pages.append(page)
        self.tail, self.tail_bytes = [], 0
        for entry in kept:
            if entry.prev == self.end.chain:  # as it is: its chain may cover the nonce of a fork before this one
                self._add(entry)
            else:
                self.append(Draft.model_validate(dict(entry)))

    def slice(self, upto: Position, max_bytes: int) -> Slice:
        """The newest entries before `upto`, in order, at most `max_bytes` of them but at least one.

        Raises:
            NoSuchPosition: `upto` is not on this timeline.
        """
        if upto.index <= self.tail_start.index:
            return self._page_slice(upto)
        if not self._has_in_tail(upto):
            raise NoSuchPosition(f"no entry {upto.index - 1} with that chain")
        chosen: list[Entry] = []
        size = 0
        for entry in reversed(self.tail[: upto.index - self.tail_start.index]):
            size += entry.size()
            if chosen and size > max_bytes:
                break
            chosen.append(entry)
        return Slice(entries=tuple(reversed(chosen)))

    def _page_slice(self, upto: Position) -> Slice:
        for page in reversed(self.pages):
            if page.first.index < upto.index < page.last.index or upto == page.last:
                return Slice(page=page)
        raise NoSuchPosition(f"no entry {upto.index - 1} with that chain in the pages")

    def _has_in_tail(self, place: Position) -> bool:
        """Whether `place` is behind an entry of the tail."""
        offset = place.index - self.tail_start.index
        return 0 < offset <= len(self.tail) and self.tail[offset - 1].chain == place.chain

    def _add(self, entry: Entry) -> None:
        self.tail.append(entry)
        self.tail_bytes += entry.size()


def user_draft(text: str, at: datetime, run: int) -> Draft:
    """An entry for what a person or a program said."""
    return Draft(kind="user", at=at, run=run, message=UserMessage(text=text))


def assistant_draft(
    message: AssistantMessage, at: datetime, run: int, model: str = "", usage: Usage | None = None
) -> Draft:
    """An entry for a response, whole or cut off."""
    return Draft(kind="assistant", at=at, run=run, message=message, model=model, usage=usage)


def result_draft(message: ToolMessage, facts: ToolFacts, at: datetime, run: int) -> Draft:
    """An entry for the result of a call."""
    return Draft(kind="tool_result", at=at, run=run, message=message, tool=facts)


def reset_draft(at: datetime, run: int, place: Position, handoff: str = "") -> Draft:
    """A head marker that leaves nothing before it in the context; `handoff` is what the model is told instead.

    `place` is where it will stand.
    """
    message = UserMessage(text=handoff) if handoff else None
    return Draft(kind="reset", at=at, run=run, message=message, head=place)


def compaction_draft(summary: str, at: datetime, run: int, head: Position) -> Draft:
    """A head marker whose `summary` stands for every entry before the place `head`."""
    return Draft(kind="compaction", at=at, run=run, message=UserMessage(text=summary), head=head)


def seed_draft(at: datetime, run: int, head: Position, told: str = "", note: str = "") -> Draft:
    """A head marker where the own entries of a subagent begin: of those that it shares, the ones from `head` on count.

    `told` stands for what came before these, as it did for its parent; `note` says for people what was shared.
    """
    message = UserMessage(text=told) if told else None
    return Draft(kind="seed", at=at, run=run, message=message, note=note, head=head)


def system_draft(patch: PromptPatch, at: datetime, run: int) -> Draft:
    """An entry for what the model is told of the harness: a change of its prompt (spec §13)."""
    return Draft(kind="system", at=at, run=run, note=patch.summary(), prompt=patch)


def note_draft(text: str, at: datetime, run: int) -> Draft:
    """An entry for people only."""
    return Draft(kind="note", at=at, run=run, note=text)
