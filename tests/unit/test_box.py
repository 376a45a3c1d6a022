"""The box of a task: what a delivery is told, first writer wins, receipts, quotas, and the turn of a run."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signals import Answer, Box, BoxFull, Delivery, KeyState, NotJson, Receipt, SignalKey, Stored
from signals.box import (
    MAX_RECEIPTS,
    RECEIPT_BYTES,
)
from signals.tokens import MAX_VALUE_BYTES

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIB = 1024
DONE = SignalKey("ci", "done")


def delivery(key: str = "done", value: Any = "passed", delivery_id: str = "", signal: str = "ci") -> Delivery:
    return Delivery(signal=signal, key=key, value=value, version=1, delivery_id=delivery_id)


def give(box: Box, sent: Delivery, invalid: str | None = None, **standing: Any) -> Answer:
    return box.take(sent, invalid, 1, NOW, **standing).answer


def receipt(answer: Answer, reason: str = "", key: str = "done", delivery_id: str = "") -> Receipt:
    return Receipt(delivery_id=delivery_id, signal="ci", key=key, answer=answer, at=NOW, reason=reason)


def turned(box: Box) -> Box:
    return Box.model_validate_json(box.model_dump_json())


def test_delivered_value_is_stored_as_it_was_sent() -> None:
    box = Box()

    told = box.take(delivery(value={"n": [1]}, delivery_id="d"), None, 3, NOW)

    assert told == receipt("delivered", delivery_id="d")
    stored = Stored(value={"n": [1]}, version=3, at=NOW, delivery_id="d")
    assert box.state(DONE) == KeyState(stored=stored, early=True)
    assert box.receipts == [told]


def test_second_value_of_a_key_is_a_duplicate_and_changes_nothing() -> None:
    box = Box()

    answers = [give(box, delivery(value=value)) for value in ("first", "second", "third")]

    assert answers == ["delivered", "duplicate", "duplicate"]
    stored = box.state(DONE).stored
    assert stored is not None
    assert stored.value == "first"


def test_value_after_the_wake_is_a_duplicate_until_the_end_and_closed_then() -> None:
    box = Box()
    give(box, delivery())
    box.consume(DONE)

    assert give(box, delivery()) == "duplicate"
    assert give(box, delivery(), closed=True) == "closed"


def test_refused_value_leaves_the_key_open() -> None:
    box = Box()

    assert box.take(delivery(), "status: wrong", 1, NOW) == receipt("invalid", "status: wrong")
    assert box.state(DONE) == KeyState()
    assert give(box, delivery()) == "delivered"


ORDER: list[tuple[Answer, dict[str, Any], str | None, str]] = [
    ("closed", {"closed": True, "deadline_passed": True, "awaited": [DONE]}, "wrong", "held"),
    ("invalid", {"deadline_passed": True, "awaited": [DONE]}, "wrong", "held"),
    ("invalid", {"deadline_passed": True, "awaited": [DONE]}, "wrong", "expired"),
    ("duplicate", {"deadline_passed": True, "awaited": [DONE]}, None, "held"),
    ("closed", {}, None, "expired"),
    ("closed", {"deadline_passed": True, "awaited": [DONE]}, None, "open"),
    ("delivered", {"deadline_passed": True, "awaited": [SignalKey("ci", "other")]}, None, "open"),
    ("delivered", {"awaited": [DONE]}, None, "open"),
]


@pytest.mark.parametrize(("answer", "standing", "invalid", "state"), ORDER)
def test_answers_are_checked_in_their_order(
    answer: Answer, standing: dict[str, Any], invalid: str | None, state: str
) -> None:
    box = Box()
    if state == "held":
        give(box, delivery())
    elif state == "expired":
        box.expire(DONE)
    before = box.model_dump_json()

    assert box.answer(delivery(), invalid, **standing)[0] == answer
    assert box.model_dump_json() == before
    assert give(box, delivery(), invalid, **standing) == answer


@pytest.mark.parametrize(
    ("sent", "why"),
    [
        (delivery(key=""), "a key has 1 to"),
        (delivery(key="k" * 100_000), "a key has 1 to"),
        (delivery(value=math.nan), "not JSON data"),
        (delivery(value=["\ud800"]), "not JSON data"),
        (delivery(value="x" * MAX_VALUE_BYTES), "send a reference"),
        (delivery(delivery_id="d" * 201), "delivery_id has 201 characters"),
    ],
)
def test_value_that_no_turn_would_carry_is_invalid_whatever_its_token_says(sent: Delivery, why: str) -> None:
    box = Box()

    told = box.take(sent, None, 1, NOW)

    assert told.answer == "invalid"
    assert why in told.reason
    assert box.keys == {}
    assert turned(box) == box


def test_reason_that_is_no_valid_text_is_kept_printable_and_short() -> None:
    told = Box().take(delivery(), "\ud800" * 10_000, 1, NOW)

    assert told.reason == "?" * 500


@pytest.mark.parametrize("key", ["a/b", "a\nb", '"', "../x", "😀", " ", "k" * 5_000, "\0", "__class__"])
def test_any_text_serves_as_a_key_and_survives_the_turn(key: str) -> None:
    box = Box()
    give(box, delivery(key=key, value=key))

    box = turned(box)

    assert give(box, delivery(key=key)) == "duplicate"
    stored = box.state(SignalKey("ci", key)).stored
    assert stored is not None
    assert stored.value == key


def test_equal_keys_of_two_signals_are_two_waits() -> None:
    box = Box()

    answers = [give(box, delivery(signal=signal)) for signal in ("ci", "cd", "ci")]

    assert answers == ["delivered", "delivered", "duplicate"]


def test_key_state_is_read_whatever_it_is() -> None:
    box = Box()
    assert box.state(DONE) == KeyState()
    box.expire(DONE)
    assert box.state(DONE) == KeyState(expired=True)
    give(box, delivery("other"))
    box.consume(SignalKey("ci", "other"))
    stored = Stored(value="passed", version=1, at=NOW)
    assert box.state(SignalKey("ci", "other")) == KeyState(stored=stored, consumed=True)


def test_expiring_keeps_a_value_that_came_before() -> None:
    box = Box()
    give(box, delivery())
    before = box.state(DONE)

    box.expire(DONE)

    assert box.state(DONE) == before


def test_expiring_twice_is_expiring_once() -> None:
    box = Box()
    box.expire(DONE)
    before = box.model_dump_json()

    box.expire(DONE)

    assert box.model_dump_json() == before


@pytest.mark.parametrize("state", ["open", "expired", "consumed"])
def test_key_without_an_unused_value_wakes_nothing(state: str) -> None:
    box = Box()
    if state == "expired":
        box.expire(DONE)
    elif state == "consumed":
        give(box, delivery())
        box.consume(DONE)
    before = box.model_dump_json()

    with pytest.raises(ValueError, match="holds no unused value"):
        box.consume(DONE)
    assert box.model_dump_json() == before


REFUSED: list[tuple[str | None, dict[str, Any], Answer]] = [
    (None, {}, "delivered"),
    ("status: wrong", {}, "invalid"),
    (None, {"closed": True}, "closed"),
    (None, {"awaited": [DONE], "deadline_passed": True}, "closed"),
]


@pytest.mark.parametrize(("invalid", "standing", "answer"), REFUSED)
def test_same_delivery_id_again_gives_the_same_answer(
    invalid: str | None, standing: dict[str, Any], answer: Answer
) -> None:
    box = Box()
    first = box.take(delivery(delivery_id="d"), invalid, 1, NOW, **standing)
    box = turned(box)
    before = box.model_dump_json()

    later = NOW + timedelta(days=1)
    assert box.take(delivery(value="other", delivery_id="d"), None, 1, later) == first
    assert box.answer(delivery(delivery_id="d"), "wrong now", closed=True) == (answer, first.reason)
    assert box.model_dump_json() == before


def test_delivery_without_an_id_is_never_taken_for_a_repeat() -> None:
    box = Box()

    assert [give(box, delivery()) for _ in range(2)] == ["delivered", "duplicate"]
    assert len(box.receipts) == 2


def test_one_delivery_id_for_two_keys_is_two_deliveries() -> None:
    box = Box()
    long = "k" * 1_000

    keys = ["a", "b", long, f"{long}!"]
    assert [give(box, delivery(key, delivery_id="d")) for key in keys] == ["delivered"] * 4
    assert [give(box, delivery(key, delivery_id="d"), "wrong") for key in keys] == ["delivered"] * 4


def test_refusals_of_two_long_keys_are_told_apart() -> None:
    box = Box()
    long = "k" * 1_000
    box.take(delivery(long, delivery_id="d"), "wrong", 1, NOW)

    assert give(box, delivery(f"{long}!", delivery_id="d")) == "delivered"
    assert give(box, delivery(long, delivery_id="d")) == "invalid"


def test_receipts_are_bounded_and_the_oldest_go_first() -> None:
    box = Box()

    for number in range(1_000):
        box.take(delivery(delivery_id=str(number)), "wrong", 1, NOW)

    assert [one.delivery_id for one in box.receipts] == [str(n) for n in range(1_000 - MAX_RECEIPTS, 1_000)]
    assert give(box, delivery(delivery_id="999")) == "invalid"
    assert give(box, delivery(delivery_id="0")) == "delivered"


def test_large_receipts_are_bounded_in_bytes() -> None:
    box = Box()

    for number in range(300):
        box.take(delivery(key=f"{number}" + "😀" * 500, delivery_id="é" * 199), "\x01" * 500, 1, NOW)

    assert sum(one.size for one in box.receipts) == box.receipt_bytes <= RECEIPT_BYTES
    assert box.receipts[-1].key.startswith("299😀")
    assert len(box.receipts[-1].key) == 200


def test_flood_of_refusals_never_makes_a_delivery_forgotten() -> None:
    box = Box()
    first = box.take(delivery(delivery_id="d"), None, 1, NOW)
    for _ in range(1_000):
        give(box, delivery("junk"), "wrong")
    box = turned(box)

    assert box.take(delivery(delivery_id="d"), None, 1, NOW) == first
    assert box.known_receipts() == [first, *box.receipts]
    assert len(box.receipts) == MAX_RECEIPTS


def test_known_receipts_name_each_delivery_once_in_its_order() -> None:
    box = Box()
    told = [box.take(delivery(str(n), delivery_id=str(n)), None, 1, NOW + timedelta(n)) for n in range(300)]

    assert box.known_receipts() == told
    assert turned(box).known_receipts() == told


def test_second_write_of_a_memo_keeps_the_first_value() -> None:
    box = Box()

    assert box.memo("m", 1) == 1
    assert box.memo("m", 2) == 1
    assert turned(box).memo("m", 3) == 1
    assert box.memos == {"m": 1}


def test_memo_over_the_quota_is_refused_and_changes_nothing() -> None:
    box = Box()
    box.memo("a", "x" * (300 * KIB))
    before = box.model_dump_json()

    with pytest.raises(BoxFull, match="memo 'b' needs"):
        box.memo("b", "x" * (300 * KIB))
    assert box.model_dump_json() == before
    assert box.memo("c", "x" * (200 * KIB)) != ""


@pytest.mark.parametrize("value", [math.nan, "\ud800", b"", {1: 2}])
def test_memo_that_no_turn_would_carry_is_refused(value: Any) -> None:
    box = Box()

    with pytest.raises(NotJson):
        box.memo("m", value)
    assert box == Box()


def test_box_is_the_same_after_the_turn() -> None:
    box = Box()
    box.memo("m", {"deep": [1.5, None, "é"]})
    give(box, delivery(value={"big": 10**40}, delivery_id="d"))
    box.consume(DONE)
    box.expire(SignalKey("ci", "gone"))
    give(box, delivery("x"), "wrong")

    assert turned(box) == box
    assert json.loads(turned(box).model_dump_json()) == json.loads(box.model_dump_json())


def test_box_of_an_earlier_release_still_loads() -> None:
    box = Box.model_validate_json('{"memos": {"m": 1}, "used_bytes": 2}')

    assert box == Box(memos={"m": 1}, used_bytes=2)
    assert box.memo("m", 2) == 1
    assert give(box, delivery()) == "delivered"


def test_value_stored_without_a_delivery_id_still_loads() -> None:
    old = '{"keys": {"ci": {"done": {"stored": {"value": 1, "version": 1, "at": "2026-01-01T00:00:00Z"}}}}}'

    assert Box.model_validate_json(old).state(DONE) == KeyState(stored=Stored(value=1, version=1, at=NOW))


@pytest.mark.parametrize("bad", [{"version": True}, {"version": "1"}, {"key": 7}, {"delivery_id": None}])
def test_delivery_of_nearly_the_right_types_is_not_read(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="validation error"):
        Delivery.model_validate_json(json.dumps({"signal": "ci", "key": "k", **bad}))
