"""Questions as pages show them, and which answers fit them (spec §23.2, §23.4). Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signals.tokens import SignalKey
from tarry.core.gates import arguments_digest
from tarry.core.live import Question
from tarry.core.parked_note import label
from tarry.core.people import APPROVAL
from tarry.redaction import Shown
from workers.inbox.answering import Answer
from workers.inbox.listing import PAGE_SIZE, Listing
from workers.inbox.showing import Card, card

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DIGEST = arguments_digest("edit", {"path": "a"})
LONG = SignalKey(APPROVAL, "k" * 300)


def question(*keys: str) -> Question:
    return Question(
        task_id="t", path=(), tool="edit", question="?", keys=keys, since=NOW, digest=DIGEST, arguments='{"path":"a"}'
    )


def answer(key: str, **change: Any) -> Answer:
    said: dict[str, Any] = {"digest": DIGEST, "since": NOW, "value": {}}
    return Answer(task_id="t", signal=APPROVAL, key=key, person="Ana", said="", **said | change)


def broken(shown: Shown) -> Any:
    raise KeyError("path")


@pytest.mark.parametrize("redact", [broken, lambda shown: "no object"])
def test_what_the_application_cannot_say_is_not_shown_and_nobody_decides(redact: Any) -> None:
    found = card(question(f"{APPROVAL}/k"), NOW, redact)

    assert (found.arguments, found.is_unsaid, found.is_whole, found.is_decidable) == (None, True, False, False)


def test_what_the_application_hides_on_purpose_can_be_decided() -> None:
    found = card(question(f"{APPROVAL}/k"), NOW, lambda shown: shown.value.clear() or {})

    assert (found.arguments, found.is_whole, found.is_decidable) == ((), False, True)


def test_an_approval_whose_key_is_not_shown_whole_is_not_decided_from_a_page() -> None:
    assert not card(question(label(LONG)), NOW, None).is_decidable


def test_an_answer_fits_the_question_that_was_seen_alone() -> None:
    asked = question(f"{APPROVAL}/k")

    assert answer("k").fits(asked)
    assert not answer("j").fits(asked)
    assert not answer("k", digest="0").fits(asked)
    assert not answer("k", since=NOW + timedelta(microseconds=1)).fits(asked)
    assert answer("k", since=None).fits(asked), "as of a link"


def test_a_key_that_lists_show_by_its_hash_is_answered_by_who_knows_it_whole() -> None:
    asked = question(label(LONG))

    assert answer(LONG.key).fits(asked)
    assert not answer(label(LONG).partition("/")[2]).fits(asked)


def test_the_same_answer_is_the_same_delivery_whichever_page_it_was_given_on() -> None:
    assert answer("k").delivery_id == answer("k", since=NOW + timedelta(hours=1)).delivery_id


def test_cards_are_made_of_the_page_that_is_shown_alone() -> None:
    made: list[Question] = []

    def shown(one: Question) -> Card:
        made.append(one)
        return card(one, NOW, None)

    listing = Listing.of([question(f"{APPROVAL}/{number}") for number in range(200)], {"page": "2"}, shown)

    assert (listing.found, listing.number, len(listing.cards), len(made)) == (200, 2, PAGE_SIZE, PAGE_SIZE)
