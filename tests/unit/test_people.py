"""Ids of deliveries that name a person, and what a decision keeps (spec §23.4, §23.7)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signals.box import MAX_DELIVERY_ID, Stored
from signals.tokens import SignalKey
from tarry.core.decisions import MAX_DECISIONS, Decided, decided, with_decision
from tarry.core.people import MAX_NONCE, MAX_PERSON, delivery_of, names_person, person_of, person_problem
from tarry.core.waiting import ParkedNote

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEY = SignalKey("approvals.decision", "k")
NOTE = ParkedNote(since=NOW, text="Allow it?", tool="edit", arguments="{}", digest="d")
NAMES = st.text(min_size=1, max_size=MAX_PERSON).filter(lambda name: person_problem(name) is None)


def stored(value: object, delivery_id: str = delivery_of("Ana", "1")) -> Stored:
    return Stored(value=value, version=1, at=NOW, delivery_id=delivery_id)


@given(NAMES, st.text("abc-123", min_size=1, max_size=MAX_NONCE))
def test_the_id_of_a_persons_delivery_is_one_and_says_who_it_was(name: str, nonce: str) -> None:
    made = delivery_of(name, nonce)

    assert (person_of(made), names_person(made), len(made) <= MAX_DELIVERY_ID) == (name, True, True)


@pytest.mark.parametrize("name", ["", " ana", "ana ", "a\nb", "a\u202eb", "x" * (MAX_PERSON + 1), "a\udc00"])
def test_what_is_no_name_names_nobody(name: str) -> None:
    assert person_of(f"person/1/{name}") == ""
    with pytest.raises(ValueError, match="a person's name has"):
        delivery_of(name, "1")


@pytest.mark.parametrize("nonce", ["", "a/b", "n" * (MAX_NONCE + 1)])
def test_a_nonce_is_short_and_holds_no_slash(nonce: str) -> None:
    with pytest.raises(ValueError, match="no slash"):
        delivery_of("Ana", nonce)


@pytest.mark.parametrize("id", ["", "ci:1234", "0123abcd", "persona/1/Ana", "person", "person/1"])
def test_other_ids_name_nobody(id: str) -> None:
    assert person_of(id) == ""


def test_a_decision_keeps_who_and_why_and_what_was_asked() -> None:
    kept = decided(NOTE, KEY, stored({"allow": False, "by": "x", "reason": "no"}))

    assert kept is not None
    assert (kept.by, kept.allowed, kept.reason, kept.question, kept.digest) == ("Ana", False, "no", "Allow it?", "d")


def test_of_other_values_only_that_they_came_is_kept() -> None:
    kept = [decided(NOTE, KEY, stored(value)) for value in ("s3cret", {"allow": "yes", "reason": "s3cret"}, None)]

    assert all(one is not None and one.allowed is None and "s3cret" not in one.model_dump_json() for one in kept)


def test_what_nobody_is_known_to_have_sent_is_no_decision() -> None:
    assert decided(NOTE, KEY, stored({"allow": True}, "ci:1")) is None


def test_the_newest_decisions_are_kept_and_are_small_whatever_was_written() -> None:
    long = NOTE.model_copy(update={"text": "\u00e4" * 9_000})
    found: Sequence[Decided] = []
    for number in range(MAX_DECISIONS + 2):
        one = decided(long, KEY, stored({"allow": True, "reason": "\x00" * 9_000}, delivery_of(str(number), "1")))
        assert one is not None
        found = with_decision(found, one)

    assert [one.by for one in found] == ["2", "3", "4"]
    assert len(found[0].model_dump_json()) < 2_048
