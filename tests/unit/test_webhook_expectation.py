from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tarry.core.expectation import (
    KEPT_BYTES,
    MAX_KEPT,
    Expectation,
    ExpectationInput,
    ForwardInput,
    Kept,
    Target,
    expectation_id,
    label,
    match_problem,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
MINE = Target(task_id="c~1/g1/t1.0", signal="ci.result", key="done")
YOURS = Target(task_id="c~1/g1/t1.1", signal="ci.result", key="done")


def kept(number: int, size: int = 1) -> Kept:
    return Kept(value="v" * size, delivery_id=f"d{number}")


def test_each_match_of_each_source_has_a_short_id_of_its_own() -> None:
    pairs = [("ci", "a"), ("ci", "b"), ("bank", "a"), ("c", "ia"), ("ci", "😀\n/" * 1_000)]
    ids = [expectation_id(*pair) for pair in pairs]

    assert len(set(ids)) == len(pairs)
    assert all(len(one) <= 60 and one.isascii() and "/" in one for one in ids)


def test_a_label_is_one_short_line_whatever_the_match() -> None:
    assert label("ci", "a\nb") == r"ci: 'a\nb'"
    assert len(label("ci", "😀" * 8_000)) == 180


def test_matches_are_bounded_text() -> None:
    assert match_problem("m") is None
    assert match_problem("") == "a match has 1 to 8192 bytes, this one has 0"
    assert match_problem("\ud800") == "a match must be valid Unicode"


def test_with_a_target_from_the_start_it_lasts_as_long_as_it_is_expected() -> None:
    state = Expectation(ExpectationInput(target=MINE, expected_for=timedelta(days=2)), NOW)

    assert state.due() is None
    assert not state.is_over(NOW + timedelta(days=2, seconds=-1))
    assert state.is_over(NOW + timedelta(days=2))


def test_an_unexpected_webhook_is_kept_for_its_own_time() -> None:
    state = Expectation(ExpectationInput(unexpected_for=timedelta(hours=1)), NOW)
    state.keep(kept(1))

    assert state.due() is None
    assert state.is_over(NOW + timedelta(hours=1))


def test_what_was_kept_is_due_in_order_once_somebody_expects_it() -> None:
    state = Expectation(ExpectationInput(), NOW)
    for number in (1, 2, 1):
        state.keep(kept(number))
    later = NOW + timedelta(hours=5)

    assert state.expect(MINE, later)

    assert state.due() == ForwardInput(target=MINE, kept=(kept(1), kept(2)))
    assert state.until == later + timedelta(days=30)


def test_the_first_target_stays() -> None:
    state = Expectation(ExpectationInput(), NOW)
    state.expect(MINE, NOW)

    assert (state.accepts(MINE), state.accepts(YOURS)) == (True, False)
    assert not state.expect(YOURS, NOW + timedelta(days=1))
    assert not state.expect(MINE, NOW + timedelta(days=1))
    assert (state.target, state.until) == (MINE, NOW + timedelta(days=30))


def test_what_comes_while_the_rest_is_on_its_way_is_due_next() -> None:
    state = Expectation(ExpectationInput(target=MINE), NOW)
    state.keep(kept(1))
    first = state.due()
    state.keep(kept(2))

    assert first is not None
    state.forwarded(first)

    assert state.due() == ForwardInput(target=MINE, kept=(kept(2),))


def test_a_webhook_that_comes_while_there_is_room_is_kept_whatever_its_size() -> None:
    state = Expectation(ExpectationInput(), NOW)

    for number in range(3):
        state.keep(kept(number, 256 * 1024))

    assert [one.delivery_id for one in state.kept] == ["d0", "d1"]
    state = Expectation(ExpectationInput(), NOW)
    for number, size in enumerate((400 * 1024, 250 * 1024)):
        state.keep(kept(number, size))
    assert [one.delivery_id for one in state.kept] == ["d0", "d1"]


def test_what_is_no_json_data_is_not_kept_and_keeps_nothing_out() -> None:
    state = Expectation(ExpectationInput(), NOW)
    deep: list[Any] = []
    for _ in range(150):
        deep = [deep]

    for number, value in enumerate((float("nan"), deep, "v")):
        state.keep(Kept(value=value, delivery_id=f"d{number}"))

    assert state.kept == [Kept(value="v", delivery_id="d2")]


@given(sizes=st.lists(st.integers(0, 256 * 1024), max_size=80))
def test_floods_are_bounded_and_the_first_always_stays(sizes: list[int]) -> None:
    state = Expectation(ExpectationInput(), NOW)
    for number, size in enumerate(sizes):
        state.keep(kept(number, size))

    assert len(state.kept) <= MAX_KEPT
    # What is here already decides, as it does for the gateway: none that was answered `kept` is dropped.
    assert sum(len(one.value) + 2 for one in state.kept[:-1]) <= KEPT_BYTES
    assert [one.delivery_id for one in state.kept[:1]] == ["d0"] * bool(sizes)


def test_a_turn_of_the_run_carries_everything_and_moves_no_deadline() -> None:
    state = Expectation(ExpectationInput(), NOW)
    state.keep(kept(1))
    turned = Expectation(
        ExpectationInput.model_validate_json(state.carried().model_dump_json()), NOW + timedelta(hours=3)
    )

    assert (turned.target, turned.kept, turned.until) == (None, [kept(1)], NOW + timedelta(days=1))
    turned.expect(MINE, NOW)
    assert Expectation(turned.carried(), NOW + timedelta(days=9)).until == NOW + timedelta(days=30)
