"""The state of documents: edits against revisions, what is kept of the past, forks, bounds (spec §7.7)."""

from __future__ import annotations

import pytest

from tarry.core.documents import (
    MAX_DOCUMENT_BYTES,
    MAX_DOCUMENTS,
    Body,
    DocumentEdit,
    Documents,
    Fold,
    ForkPolicy,
    History,
    Outdated,
    Rules,
)
from tarry.core.inbox import Full, TooLarge
from tarry.core.protocol import digest
from tarry.core.text import canonical_json


def body(value: object, version: int = 1) -> Body:
    text = canonical_json(value)
    return Body(version=version, size=len(text), digest=digest(text), value=value)


def edit(
    id: str,
    expected: int,
    value: object = None,
    *,
    version: int = 1,
    history: History = "rewindable",
    fork: ForkPolicy = "as_of",
    entry: int = 0,
    fold: Fold | None = None,
) -> DocumentEdit:
    """An edit; without a value it retires."""
    made = None if value is None else body(value, version)
    rules = Rules(history=history, fork=fork)
    return DocumentEdit(id=id, rules=rules, expected=expected, body=made, entry=entry, fold=fold)


def values(documents: Documents) -> dict[str, object]:
    return {id: kept.body.value for id, kept in documents.kept.items() if kept.body is not None}


def past(documents: Documents, id: str, entries: int) -> list[object]:
    """What a document was at the end of the commit of each entry."""
    states = [documents.kept[id].as_of(entry) for entry in range(entries)]
    return [None if state is None or state.body is None else state.body.value for state in states]


def test_edits_of_one_commit_are_one_revision_of_all_that_they_change() -> None:
    first = Documents().edited([edit("a", 0, 1), edit("b", 0, 1)], 0)
    second = first.edited([edit("b", 1, 2)], 1)

    assert {id: kept.revision for id, kept in second.kept.items()} == {"a": 1, "b": 2}
    assert (values(second), second.revision) == ({"a": 1, "b": 2}, 2)


def test_one_edit_of_an_outdated_revision_refuses_all_of_a_commit() -> None:
    documents = Documents().edited([edit("a", 0, 1)], 0)

    with pytest.raises(Outdated, match="document a is at revision 1, not at 0"):
        documents.edited([edit("b", 0, 1), edit("a", 0, 2)], 0)
    with pytest.raises(Outdated):
        documents.edited([edit("b", 7, 1)], 0)


def test_an_equal_value_makes_no_revision_unless_it_is_in_another_version() -> None:
    documents = Documents().edited([edit("a", 0, {"x": 1})], 0)

    assert documents.edited([edit("a", 1, {"x": 1})], 5) == documents
    assert documents.edited([edit("a", 1, {"x": 1}, version=2)], 5).kept["a"].revision == 2


def test_a_rewindable_document_is_known_as_it_was_at_the_end_of_each_commit() -> None:
    documents = Documents().edited([edit("a", 0, "one")], 2)
    documents = documents.edited([edit("a", 1, "two")], 4)
    documents = documents.edited([edit("a", 2, "three")], 4)

    assert past(documents, "a", 6) == [None, None, "one", "one", "three", "three"]


def test_an_edit_during_a_run_stands_where_its_writer_saw_the_end_of_the_run() -> None:
    documents = Documents().edited([edit("a", 0, "one", entry=5)], 2, is_open=True)
    documents = documents.edited([edit("a", 1, "two", entry=9)], 6)

    assert past(documents, "a", 8) == [None] * 5 + ["one", "two", "two"]


def test_a_document_without_a_history_keeps_its_latest_state_alone() -> None:
    documents = Documents().edited([edit("a", 0, "one", history="latest")], 2)
    documents = documents.edited([edit("a", 1, "two", history="latest")], 4)

    assert len(documents.kept["a"].states) == 1
    assert documents.edited([edit("a", 2, history="latest")], 5).kept == {}


def test_a_document_that_is_made_again_after_it_was_retired_is_another_one() -> None:
    first = Documents().edited([edit("a", 0, "one")], 0)
    retired = first.edited([edit("a", 1)], 1)
    again = retired.edited([edit("a", 0, "one")], 2)

    assert (values(retired), past(again, "a", 3)) == ({}, ["one", None, "one"])
    assert [first.kept["a"].born, again.kept["a"].born, again.kept["a"].revision] == [1, 3, 3]
    with pytest.raises(Outdated):
        again.edited([edit("a", 1, "by who read the first")], 3)


def test_states_that_a_writer_has_folded_are_no_longer_carried() -> None:
    documents = Documents().edited([edit("a", 0, "one")], 0)
    documents = documents.edited([edit("a", 1, "two")], 1)
    folded = documents.edited([edit("a", 2, "three", fold=Fold(ref="store", upto=2))], 2)

    assert (past(folded, "a", 3), folded.kept["a"].folded) == ([None, None, "three"], "store")


@pytest.mark.parametrize(
    ("fork", "value", "behind"),
    [
        ("as_of", "one", ["one", "one", "one"]),
        ("current", "two", ["one", "two", "two"]),
        ("initial", None, None),
    ],
)
def test_a_fork_begins_with_what_the_policy_of_a_document_says(
    fork: ForkPolicy, value: object, behind: list[object] | None
) -> None:
    documents = Documents().edited([edit("a", 0, "one", fork=fork)], 0)
    documents = documents.edited([edit("a", 1, "two", fork=fork)], 3)

    forked = documents.forked(1)

    assert values(forked).get("a") == value
    assert behind is None or past(forked, "a", 3) == behind


def test_a_fork_before_a_document_was_made_has_none() -> None:
    assert Documents().edited([edit("a", 0, "one")], 3).forked(2).kept == {}


def test_a_fork_before_what_is_carried_reads_what_is_folded_up_to_its_entry() -> None:
    documents = Documents().edited([edit("a", 0, "one")], 0)
    documents = documents.edited([edit("a", 1, "two", fold=Fold(ref="store", upto=1))], 5)

    forked = documents.forked(3).forked(2)

    assert (forked.kept["a"].states, forked.kept["a"].folded, forked.kept["a"].cut) == ((), "store", 2)


def test_a_value_or_a_number_of_documents_that_is_too_large_is_refused_whole() -> None:
    with pytest.raises(TooLarge):
        Documents().edited([edit("a", 0, "x" * MAX_DOCUMENT_BYTES)], 0)
    with pytest.raises(Full, match="documents"):
        Documents().edited([edit(str(number), 0, 1) for number in range(MAX_DOCUMENTS + 1)], 0)


def test_values_of_a_mebibyte_together_are_refused_and_fewer_are_carried_by_reference() -> None:
    def large(number: int) -> DocumentEdit:
        stored = Body(version=1, size=MAX_DOCUMENT_BYTES, digest=str(number), ref="r" * 250)
        return DocumentEdit(id=str(number), expected=0, body=stored)

    documents = Documents().edited([large(number) for number in range(4)], 0)

    assert documents.carried() < 4 * 1024
    with pytest.raises(Full, match="1048576 are allowed"):
        documents.edited([large(5)], 0)


def test_documents_that_a_writer_does_not_put_into_the_store_are_refused_at_what_can_be_carried() -> None:
    with pytest.raises(Full, match="to carry"):
        Documents().edited([edit(str(number), 0, "x" * 4_000) for number in range(60)], 0)
