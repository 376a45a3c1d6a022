"""Which hooks count, and when calls are looked for: the pure part (spec §5.3)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tarry.core.registry import MAX_KNOWN, MAX_PAUSE, SETTLING, RegistryState

NOW = datetime(2030, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(minutes=5)


def told(*fingerprints: str) -> RegistryState:
    """After workers announced these, one after the other."""
    state = RegistryState()
    for fingerprint in fingerprints:
        state.announce(fingerprint, NOW)
    return state


def test_first_hooks_of_a_queue_are_looked_for_once() -> None:
    state = told("a")
    assert (state.current, state.sweep_at) == ("a", NOW)

    state.swept("a", LATER, found=False)

    assert state.sweep_at is None


def test_a_change_is_followed_by_a_second_look_even_when_the_first_finds_nobody() -> None:
    state = told("a", "b")

    state.swept("b", LATER, found=False)
    second = state.sweep_at
    state.swept("b", LATER + SETTLING, found=False)

    assert (state.current, second, state.sweep_at) == ("b", LATER + SETTLING, None)


def test_as_long_as_some_are_found_they_are_looked_for_more_and_more_rarely() -> None:
    state = told("a", "b")
    pauses = []
    for _ in range(9):
        state.swept("b", LATER, found=True)
        assert state.sweep_at is not None
        pauses.append(state.sweep_at - LATER)

    assert pauses[:3] == [SETTLING, 2 * SETTLING, 4 * SETTLING]
    assert pauses[-1] == MAX_PAUSE


def test_a_sweep_for_hooks_that_count_no_more_settles_nothing() -> None:
    state = told("a", "b")

    state.swept("a", LATER, found=False)

    assert (state.current, state.sweep_at, state.is_followed) == ("b", NOW, True)


def test_hooks_that_were_there_before_count_again_only_when_published() -> None:
    state = told("a", "b", "a")
    announced = state.current
    state.publish("a", LATER)
    state.announce("c", LATER)

    assert (announced, state.current, state.sweep_at) == ("b", "a", LATER)


def test_publishing_what_counts_changes_nothing_but_that_it_was_published() -> None:
    state = told("a")
    state.swept("a", NOW, found=False)

    state.publish("a", LATER)

    assert (state.current, state.sweep_at, state.is_published) == ("a", None, True)


def test_a_change_begins_its_looks_with_the_short_pause() -> None:
    state = told("a", "b")
    for _ in range(3):
        state.swept("b", NOW, found=True)
    state.publish("c", LATER)
    state.swept("c", LATER, found=True)

    assert state.sweep_at == LATER + SETTLING


def test_only_the_newest_fingerprints_are_remembered() -> None:
    state = told(*(str(number) for number in range(MAX_KNOWN + 1)))

    assert len(state.known) == MAX_KNOWN
    assert "0" not in state.known


def test_state_is_the_same_after_a_turn_of_the_run() -> None:
    state = told("a", "b")
    state.swept("b", LATER, found=True)

    assert RegistryState.model_validate_json(state.model_dump_json()) == state


def test_a_build_that_is_made_current_brings_its_hooks_whatever_was_published_before() -> None:
    state = told("a", "b")
    state.publish("a", NOW)

    state.made_current("b", LATER, LATER)

    assert (state.current, state.sweep_at) == ("b", LATER)


def test_a_worker_that_tells_again_since_when_its_build_is_current_changes_nothing() -> None:
    state = told("a")
    state.made_current("b", NOW, NOW)
    state.publish("a", LATER)
    state.swept("a", LATER, found=False)

    state.made_current("b", NOW, LATER)

    assert state.current == "a"


def test_a_step_back_to_a_build_brings_back_its_hooks() -> None:
    state = RegistryState()
    state.made_current("a", NOW, NOW)
    state.made_current("b", LATER, LATER)

    state.made_current("a", LATER + timedelta(seconds=1), LATER + timedelta(seconds=1))

    assert state.current == "a"


def test_a_time_in_the_future_counts_as_now_so_that_nobody_locks_out_later_builds() -> None:
    state = RegistryState()
    state.made_current("a", LATER + timedelta(days=365), NOW)

    state.made_current("b", LATER, LATER)

    assert (state.current, state.counts_since) == ("b", LATER)


def test_workers_that_are_no_build_bring_nothing_once_a_build_was_made_current() -> None:
    state = RegistryState()
    state.made_current("a", NOW, NOW)

    state.announce("b", LATER)

    assert state.current == "a"
