"""Any sequence of commits against a tiny model: a list of what every document was after each of them (spec §7.7)."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.documents import (
    Body,
    DocumentEdit,
    Documents,
    Fold,
    Folded,
    Kept,
    Outdated,
    Rules,
    State,
    state_as_of,
)
from tarry.core.protocol import digest

IDS = ("a", "b")


@dataclass
class Commit:
    """What one commit does: a value for each document, or None to retire it; `entries` come before it."""

    values: dict[str, str | None]
    entries: int
    folds: bool
    is_stale: bool


COMMITS = st.lists(
    st.builds(
        Commit,
        values=st.dictionaries(st.sampled_from(IDS), st.one_of(st.none(), st.sampled_from("xyz")), min_size=1),
        entries=st.integers(0, 2),
        folds=st.booleans(),
        is_stale=st.sampled_from([False, False, False, True]),
    ),
    max_size=12,
)


@dataclass
class World:
    """The machine with a store beside it, and the model: what each document was by the number of entries."""

    documents: Documents = field(default_factory=Documents)
    store: dict[str, Folded] = field(default_factory=dict)
    entries: int = 0
    told: dict[str, list[tuple[int, str | None]]] = field(default_factory=lambda: {id: [] for id in IDS})

    def play(self, commit: Commit) -> None:
        """One commit, as a writer makes it."""
        self.entries += commit.entries
        edits = [self._edit(id, value, commit) for id, value in commit.values.items()]
        if commit.is_stale:
            before = self.documents
            with pytest.raises(Outdated):
                self.documents.edited(edits, self.entries)
            assert self.documents == before
            return
        self.documents = self.documents.edited(edits, self.entries)
        for id, value in commit.values.items():
            self.told[id].append((self.entries, value))

    def _edit(self, id: str, value: str | None, commit: Commit) -> DocumentEdit:
        kept = self.documents.kept.get(id)
        fold = None
        if commit.folds and kept is not None and kept.states:
            ref = f"ref-{len(self.store)}"
            self.store[ref] = Folded(states=kept.states, before=kept.folded, cut=kept.cut)
            fold = Fold(ref=ref, upto=kept.revision)
        revision = 0 if kept is None or kept.is_retired else kept.revision
        return DocumentEdit(
            id=id,
            rules=Rules(history="rewindable", fork="as_of"),
            expected=revision + commit.is_stale,
            body=None if value is None else Body(version=1, size=1, digest=digest(value), value=value),
            fold=fold,
        )

    def expected(self, id: str, entry: int) -> str | None:
        """What the model says that a document was as of an entry."""
        return next((value for entries, value in reversed(self.told[id]) if entries <= entry), None)

    def found(self, documents: Documents, id: str, entry: int) -> str | None:
        """What a reader finds, in what is carried and in the store."""
        kept = documents.kept.get(id)
        state = None if kept is None else self._state(kept, entry)
        return None if state is None or state.body is None else state.body.value

    def _state(self, kept: Kept, entry: int) -> State | None:
        state, ref, cut = kept.as_of(entry), kept.folded, kept.cut
        while state is None and ref:
            entry = entry if cut is None else min(entry, cut)
            page = self.store[ref]
            state, ref, cut = state_as_of(page.states, entry), page.before, page.cut
        return state


def played(commits: list[Commit], world: World | None = None) -> World:
    world = world or World()
    for commit in commits:
        world.play(commit)
    return world


@given(COMMITS)
def test_every_document_is_found_as_it_was_after_each_commit(commits: list[Commit]) -> None:
    world = played(commits)

    for id in IDS:
        for entry in range(world.entries + 2):
            assert world.found(world.documents, id, entry) == world.expected(id, entry)


@given(COMMITS, st.integers(0, 20), COMMITS)
def test_a_fork_begins_with_the_state_at_its_entry_and_keeps_its_past_as_it_goes_on(
    commits: list[Commit], at: int, later: list[Commit]
) -> None:
    world = played(commits)
    forked = World(documents=world.documents.forked(at), store=world.store, entries=at + 1)
    forked.told = {id: [one for one in told if one[0] <= at] for id, told in world.told.items()}
    untouched = world.documents.model_copy(deep=True)
    played(later, forked)

    for id in IDS:
        for entry in range(forked.entries + 2):
            assert forked.found(forked.documents, id, entry) == forked.expected(id, entry)
    assert world.documents == untouched


@given(COMMITS)
def test_revisions_only_grow_and_change_only_with_what_they_are_of(commits: list[Commit]) -> None:
    world = World()
    for commit in commits:
        before = world.documents
        world.play(commit)
        after = world.documents

        assert after.revision - before.revision == (0 if after.kept == before.kept else 1)
        for id, kept in after.kept.items():
            assert kept == before.kept.get(id) or kept.revision == after.revision
