"""The documents of a conversation: values of an application as raw JSON, each with a version and a revision.

Pure. What a value means only its writer knows: here it is data, or a reference to data in the store. A commit brings
edits, each made of the revision that its writer had read; one that is no longer current refuses the commit (spec §7.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

from pydantic import Field

from tarry.core.inbox import Full, TooLarge
from tarry.core.messages import Frozen

DOCUMENTS = "tarry.documents"
"""Query: a `DocumentsQuery`; answers with a `DocumentsView`. Needs a worker, but no application."""

Scope = Literal["conversation", "session"]
History = Literal["latest", "rewindable"]
ForkPolicy = Literal["as_of", "current", "initial"]

# All of these decide what a workflow does when it is replayed: change them only behind `workflow.patched`.
MAX_DOCUMENTS = 200
"""In one conversation, retired ones that can be rewound among them."""
MAX_DOCUMENT_BYTES = 256 * 1024
MAX_TOTAL_BYTES = 1024 * 1024
"""Of the current values of a conversation."""
MAX_CARRIED_BYTES = 192 * 1024
"""Of what a conversation carries of its documents; writers keep it far lower, see `INLINE_BYTES` and `FOLD_STATES`."""

INLINE_BYTES = 4 * 1024
"""A larger value is put into the store before the commit, and the conversation carries its reference."""
CROWDED_BYTES = 24 * 1024
"""Carried, from which on a writer puts values and older states into the store; the smallest values stay."""
SMALL_BYTES = 256
"""A value that is no larger than its reference would be."""
FOLD_STATES = 16
FOLD_BYTES = 16 * 1024
"""Of the states of one document: from either on a writer folds them into the store with its next edit."""


class Outdated(Exception):
    """A document has another revision than the one that an edit was made of."""


class Rules(Frozen):
    """What the declaration of a document says of its keeping."""

    scope: Scope = "conversation"
    history: History = "latest"
    fork: ForkPolicy = "current"


class Body(Frozen):
    """A value in the version that it was written in, here or behind `ref`; `digest` is of its canonical JSON."""

    version: int
    size: int
    digest: str
    value: Any = None
    ref: str = ""


class State(Frozen):
    """What a document was from a place of the transcript on: `entry` entries came before. No body: it was retired."""

    revision: int
    entry: int
    body: Body | None


class Folded(Frozen):
    """What a reference of older states leads to; `before` to those that are older still, up to the entry `cut`."""

    states: tuple[State, ...]
    before: str = ""
    cut: int | None = None


class Fold(Frozen):
    """The states up to that revision stand in the store now."""

    ref: str
    upto: int


class DocumentEdit(Frozen):
    """A change of one document; no body: it is retired. `expected` is the revision that was read, 0 for none.

    `entry` is the number of entries that the writer saw in the open run, which the conversation does not know yet.
    """

    id: str = Field(max_length=500)
    rules: Rules = Rules()
    expected: int
    body: Body | None
    entry: int = 0
    fold: Fold | None = None
    content: str = Field(default="", description="digest of an explicit value, which names what a commit key was for")


class Kept(Frozen):
    """One document. The last state is the current one; those that are older than all of `states` stand behind `folded`.

    `cut`: a fork sees nothing of what is folded from after that entry.
    """

    rules: Rules
    revision: int
    born: int = Field(description="its first revision: another one after it was retired is another document")
    states: tuple[State, ...] = ()
    folded: str = ""
    cut: int | None = None

    @property
    def body(self) -> Body | None:
        """The current value; None when it was retired, or is folded."""
        return self.states[-1].body if self.states else None

    @property
    def is_retired(self) -> bool:
        """Whether it is only kept for the sake of its past."""
        return bool(self.states) and self.states[-1].body is None

    def size(self) -> int:
        """Bytes of what is carried."""
        return len(self.model_dump_json().encode())

    def wants_folding(self, carried: int) -> bool:
        """Whether the next edit should bring a fold."""
        if self.rules.history == "latest" or not self.states:
            return False
        return len(self.states) >= FOLD_STATES or self.size() > FOLD_BYTES or carried > CROWDED_BYTES

    def edited(self, edit: DocumentEdit, state: State) -> Kept:
        """With one more state, after those that stand for earlier places of the transcript."""
        is_rewindable = edit.rules.history == "rewindable"
        states = self.states if is_rewindable else ()
        folded = self.folded if is_rewindable else ""
        if edit.fold is not None and is_rewindable:
            states = tuple(one for one in states if one.revision > edit.fold.upto)
            folded = edit.fold.ref
        earlier = tuple(one for one in states if one.entry < state.entry)
        born = state.revision if self.is_retired else self.born
        return Kept(
            rules=edit.rules,
            revision=state.revision,
            born=born,
            states=(*earlier, state),
            folded=folded,
            cut=self.cut if folded == self.folded else None,
        )

    def as_of(self, entry: int) -> State | None:
        """The state at the end of the commit of an entry; None: there was none, or it is `folded`."""
        return state_as_of(self.states, entry)

    def forked(self, at: int, revision: int) -> Kept | None:
        """What a fork at that entry has of it; None: nothing."""
        match self.rules.fork:
            case "initial":
                return None
            case "as_of":
                return self._as_of(at, revision)
            case "current":
                return self._current(at)

    def _as_of(self, at: int, revision: int) -> Kept | None:
        states = tuple(state for state in self.states if state.entry <= at)
        if states:
            return self.model_copy(update={"states": states, "revision": states[-1].revision})
        if not self.folded:
            return None
        # Nobody has read what it was then: a number that no writer has seen makes everybody read it first.
        cut = at if self.cut is None else min(at, self.cut)
        return self.model_copy(update={"states": (), "revision": revision, "cut": cut})

    def _current(self, at: int) -> Kept | None:
        if not self.states:
            return self
        earlier = tuple(state for state in self.states[:-1] if state.entry < at)
        return self.model_copy(update={"states": (*earlier, self.states[-1].model_copy(update={"entry": at}))})


class Documents(Frozen):
    """All of a conversation, by id. `revision` counts the commits that changed any."""

    revision: int = 0
    kept: dict[str, Kept] = Field(default_factory=dict)

    def edited(self, edits: Sequence[DocumentEdit], end: int, *, is_open: bool = False) -> Documents:
        """With the edits of one commit, all of them or none; `end` is the number of entries that are known here.

        A value that equals the current one, in the same version, changes nothing.

        Raises:
            Outdated: an edit was made of another revision.
            TooLarge: a value has over 256 KiB.
            Full: too many documents, or too much in them.
        """
        kept = dict(self.kept)
        for edit in edits:
            self._check(edit)
            if not _is_same(kept.get(edit.id), edit):
                entry = max(end, edit.entry) if is_open else end
                _put(kept, edit, State(revision=self.revision + 1, entry=entry, body=edit.body))
        if kept == self.kept:
            return self
        found = Documents(revision=self.revision + 1, kept=kept)
        found.check_room()
        return found

    def _check(self, edit: DocumentEdit) -> None:
        known = self.kept.get(edit.id)
        revision = 0 if known is None or known.is_retired else known.revision
        if revision != edit.expected:
            raise Outdated(
                f"document {edit.id} is at revision {revision}, not at {edit.expected}: read it again, then edit"
            )
        if edit.body is not None and edit.body.size > MAX_DOCUMENT_BYTES:
            raise TooLarge(f"document {edit.id} would have {edit.body.size} bytes; {MAX_DOCUMENT_BYTES} are allowed")

    def check_room(self) -> None:
        """Whether a conversation may hold all of this.

        Raises:
            Full: it may not.
        """
        if len(self.kept) > MAX_DOCUMENTS:
            raise Full(f"a conversation holds at most {MAX_DOCUMENTS} documents")
        if (size := self.size()) > MAX_TOTAL_BYTES:
            raise Full(f"its documents would have {size} bytes; {MAX_TOTAL_BYTES} are allowed in a conversation")
        if (size := self.carried()) > MAX_CARRIED_BYTES:
            raise Full(f"its documents would take {size} bytes of {MAX_CARRIED_BYTES} to carry: retire some")

    def size(self) -> int:
        """Bytes of the current values, wherever they are."""
        return sum(kept.body.size for kept in self.kept.values() if kept.body is not None)

    def carried(self) -> int:
        """Bytes that a conversation carries for them."""
        return sum(len(id.encode()) + kept.size() for id, kept in self.kept.items())

    def of(self, ids: Iterable[str] | None) -> Documents:
        """These alone; all for None."""
        if ids is None:
            return self
        return self.model_copy(update={"kept": {id: self.kept[id] for id in ids if id in self.kept}})

    def forked(self, at: int) -> Documents:
        """What a fork at entry `at` begins with, each document by its policy; no value is copied (spec §7.7).

        A fork without an owner is a root: documents of the session are its own from then on, too.
        """
        found = {id: kept.forked(at, self.revision) for id, kept in self.kept.items()}
        return Documents(revision=self.revision, kept={id: kept for id, kept in found.items() if kept is not None})


class DocumentsQuery(Frozen):
    """Ask for documents by id, all for None; and, with the key of a commit, whether that was taken."""

    ids: tuple[str, ...] | None = None
    key: str = ""


class DocumentsView(Frozen):
    """Documents of a conversation, and what a writer needs to know to edit them.

    `open_generation` holds the entries that the conversation does not know yet; `known` is what stands for the content
    that the key of the query was used for, empty when it was not.
    """

    documents: Documents
    carried: int
    open_generation: str | None = None
    known: str = ""


def state_as_of(states: Sequence[State], entry: int) -> State | None:
    """The newest of the states that stood at the end of the commit of that entry."""
    return next((state for state in reversed(states) if state.entry <= entry), None)


def _is_same(known: Kept | None, edit: DocumentEdit) -> bool:
    if known is None or known.body is None or edit.body is None:
        return edit.body is None and (known is None or known.is_retired)
    return (known.body.version, known.body.digest) == (edit.body.version, edit.body.digest)


def _put(kept: dict[str, Kept], edit: DocumentEdit, state: State) -> None:
    if state.body is None and edit.rules.history == "latest":
        kept.pop(edit.id, None)
        return
    known = kept.get(edit.id) or Kept(rules=edit.rules, revision=0, born=state.revision)
    kept[edit.id] = known.edited(edit, state)
