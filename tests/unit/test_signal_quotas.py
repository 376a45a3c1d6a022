"""What a task holds is bounded, and no junk makes it deaf, keeps it from parking or from its memos (spec §1.5)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from signals import Answer, Box, BoxFull, Delivery, InvalidPark, SignalKey, Sleep, Wake, commit, park
from signals.box import EARLY_BYTES, KEY_BYTES, PARK_QUOTA_BYTES, QUOTA_BYTES, RECEIPT_BYTES
from signals.tokens import MAX_KEY_BYTES, MAX_VALUE_BYTES

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
KIB = 1024
DONE = SignalKey("ci", "done")


def delivery(key: str = "done", value: Any = "passed", delivery_id: str = "", signal: str = "ci") -> Delivery:
    return Delivery(signal=signal, key=key, value=value, version=1, delivery_id=delivery_id)


def give(box: Box, sent: Delivery, invalid: str | None = None, **standing: Any) -> Answer:
    return box.take(sent, invalid, 1, NOW, **standing).answer


def fill_with_junk(box: Box, size: int, awaited: list[SignalKey]) -> int:
    """Deliver values of `size` under ever new keys until none is taken; return how many were."""
    for number in range(10_000):
        if give(box, delivery(f"junk-{number}", "x" * size), awaited=awaited) != "delivered":
            return number
    raise AssertionError("the box took everything")


@pytest.mark.parametrize("size", [1, 100, 10 * KIB, 200 * KIB])
def test_junk_never_makes_a_parked_task_deaf(size: int) -> None:
    box = Box()
    box.memo("mine", "x" * (100 * KIB))
    assert fill_with_junk(box, size, [DONE]) > 0

    told = box.take(delivery("late", "x" * size), None, 1, NOW, awaited=[DONE])

    assert told.answer == "invalid"
    assert told.reason.startswith("task_full: ")
    assert give(box, delivery(value="x" * (MAX_VALUE_BYTES - 2)), awaited=[DONE]) == "delivered"


def test_flood_of_tiny_values_takes_a_bounded_number_of_keys() -> None:
    box = Box()

    taken = fill_with_junk(box, 0, [])

    assert taken <= EARLY_BYTES // KEY_BYTES
    assert len(box.model_dump_json()) <= EARLY_BYTES + RECEIPT_BYTES + KIB


def test_junk_leaves_room_for_memos() -> None:
    box = Box()
    fill_with_junk(box, 10 * KIB, [])

    room = QUOTA_BYTES - EARLY_BYTES - RECEIPT_BYTES
    assert box.memo("mine", "x" * (room - KIB)) != ""


def test_values_memos_and_receipts_share_one_quota() -> None:
    box = Box()
    for number in range(300):
        give(box, delivery(str(number)), "wrong" * 50)
    box.memo("mine", "x" * (300 * KIB))
    fill_with_junk(box, KIB, [])

    assert QUOTA_BYTES - 2 * KIB < box.used_bytes + box.receipt_bytes <= QUOTA_BYTES
    with pytest.raises(BoxFull):
        box.memo("more", "x" * (2 * KIB))


def test_largest_value_under_the_longest_key_is_kept_early() -> None:
    box = Box()
    key = "\x01" * MAX_KEY_BYTES

    assert give(box, delivery(key, "x" * (MAX_VALUE_BYTES - 2), "d" * 200)) == "delivered"


def test_first_value_of_a_park_fits_and_the_others_share_its_quota() -> None:
    box = Box()
    keys = [SignalKey("ci", str(number)) for number in range(4)]
    size = 100 * KIB

    answers = [give(box, delivery(key.key, "x" * size), awaited=keys) for key in keys]

    assert answers == ["delivered", "delivered", "invalid", "invalid"]
    assert 2 * size < PARK_QUOTA_BYTES < 3 * size


def test_values_of_an_earlier_park_do_not_shrink_the_next_ones_room() -> None:
    box = Box()
    for number in range(3):
        key = SignalKey("ci", str(number))
        assert give(box, delivery(key.key, "x" * (200 * KIB)), awaited=[key]) == "delivered"
        box.consume(key)

    assert box.own_bytes == box.used_bytes > 600 * KIB


def test_early_value_that_woke_a_park_makes_room_for_other_early_ones() -> None:
    box = Box()
    give(box, delivery(value="x" * (200 * KIB)))
    assert give(box, delivery("next", "x" * (200 * KIB))) == "invalid"

    box.consume(DONE)

    assert box.early_bytes == 0
    assert give(box, delivery("next", "x" * (200 * KIB))) == "delivered"


def test_used_bytes_bound_the_state_that_is_carried_over() -> None:
    box = Box()
    for number in range(50):
        key = SignalKey("ci", f"{number}\x01")
        give(box, delivery(key.key, ["x\n😀"] * number, delivery_id=f"{number}é"), awaited=[key])
        box.expire(SignalKey("ci", f"gone {number}\x02"))

    assert len(box.model_dump_json().encode()) <= box.used_bytes + box.receipt_bytes + KIB


def wait_for_a_value(box: Box, name: str, size: int) -> None:
    """Park on a key of its own, be woken by a value of `size`, and take the wake."""
    key = SignalKey("ci", name)
    parked = park(Sleep(signals=(key,)), box, NOW)
    assert give(box, delivery(name, "x" * size), awaited=parked.keys) == "delivered"
    commit(parked, Wake(reason="signal", signal="ci", key=name), box)


def test_task_that_keeps_too_much_cannot_park_again() -> None:
    box = Box()
    for number in range(6):
        wait_for_a_value(box, str(number), 100 * KIB)
    before = box.model_dump_json()

    with pytest.raises(InvalidPark, match="task_full"):
        park(Sleep(until=HOUR), box, NOW)
    assert box.model_dump_json() == before
    assert box.own_bytes < QUOTA_BYTES + PARK_QUOTA_BYTES


def test_junk_keeps_no_task_from_parking() -> None:
    box = Box()
    box.memo("mine", "x" * 190 * KIB)
    fill_with_junk(box, 1, [])
    box = Box.model_validate_json(box.model_dump_json())

    for number in range(20):
        wait_for_a_value(box, str(number), 10 * KIB)


def test_hundreds_of_waits_with_keys_of_their_own_expire() -> None:
    box = Box()

    for number in range(1_000):
        parked = park(Sleep(signals=(SignalKey("ci", str(number)),), until=HOUR), box, NOW)
        commit(parked, Wake(reason="expired"), box)

    assert len(box.model_dump_json()) < box.used_bytes < QUOTA_BYTES
