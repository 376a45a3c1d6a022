"""Parks: what may be waited for, what wakes, who wins, and what a wake leaves behind (spec §3.6 to §3.9)."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signals import Answer, Ask, Box, Delivery, InvalidPark, KeyState, Park, SignalKey, Sleep, Wake, commit, park, wake
from signals.parking import MAX_AHEAD, MAX_KEYS

NOW = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
KIB = 1024
A, B, C = (SignalKey("app.answer", name) for name in "abc")
EXPIRED = Wake(reason="expired")


def by(key: SignalKey) -> Wake:
    return Wake(reason="signal", signal=key.signal, key=key.key)


def give(box: Box, key: SignalKey, parked: Park | None = None, now: datetime = NOW, value: Any = 1) -> Answer:
    sent = Delivery(signal=key.signal, key=key.key, value=value)
    keys = parked.keys if parked else ()
    passed = parked is not None and parked.is_over(now)
    return box.take(sent, None, 1, now, awaited=keys, deadline_passed=passed).answer


def sleep(*keys: SignalKey, until: Any = None) -> Sleep:
    return Sleep(signals=keys, until=until)


def turned(parked: Park) -> Park:
    return Park.model_validate_json(parked.model_dump_json())


def test_park_is_the_sleep_with_its_deadline_fixed() -> None:
    ask = Ask(text="Deploy?", for_whom="Ana")

    parked = park(Sleep(checkpoint={"id": [7]}, until=HOUR, signals=(A, B), ask=ask), Box(), NOW)

    assert parked == Park(since=NOW, until=NOW + HOUR, keys=(A, B), checkpoint={"id": [7]}, ask=ask)
    assert turned(parked) == parked


@pytest.mark.parametrize("signals", [(A, B), [A, B]])
def test_keys_come_as_a_list_or_a_tuple(signals: Any) -> None:
    assert park(Sleep(signals=signals), Box(), NOW).keys == (A, B)


class Unsure(tzinfo):
    def utcoffset(self, dt: datetime | None) -> None:
        return None

    dst = utcoffset

    def tzname(self, dt: datetime | None) -> None:
        return None


NO_DEADLINE: list[Any] = [
    datetime(2026, 1, 2),  # noqa: DTZ001 - naive on purpose
    datetime(2026, 1, 2, tzinfo=Unsure()),
    date(2026, 1, 2),
    math.nan,
    math.inf,
    -math.inf,
    0,
    3600,
    True,
    "2026-01-02T00:00:00Z",
    "soon",
    [],
    b"",
    object(),
]


@pytest.mark.parametrize("until", NO_DEADLINE, ids=lambda until: repr(until).partition(" at 0x")[0])
@pytest.mark.parametrize("keys", [(), (A,)])
def test_deadline_that_is_naive_or_no_time_is_an_invalid_park(until: Any, keys: tuple[SignalKey, ...]) -> None:
    with pytest.raises(InvalidPark, match="until "):
        park(Sleep(until=until, signals=keys), Box(), NOW)


FAR: list[Any] = [
    timedelta.max,
    MAX_AHEAD + timedelta(microseconds=1),
    datetime.max.replace(tzinfo=UTC),
    datetime.max.replace(tzinfo=timezone(timedelta(hours=-23))),
    datetime(9999, 1, 1, tzinfo=UTC),
]


@pytest.mark.parametrize("until", FAR, ids=repr)
def test_deadline_beyond_a_hundred_years_is_an_invalid_park(until: Any) -> None:
    with pytest.raises(InvalidPark, match="leave it out"):
        park(sleep(A, until=until), Box(), NOW)


PAST: list[Any] = [
    timedelta(0),
    -HOUR,
    timedelta.min,
    NOW,
    NOW - HOUR,
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime.min.replace(tzinfo=UTC),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=23))),
]


@pytest.mark.parametrize("until", PAST, ids=repr)
def test_deadline_that_is_past_expires_at_once(until: Any) -> None:
    box = Box()
    parked = turned(park(sleep(A, until=until), box, NOW))

    assert parked.until == NOW
    assert give(box, A, parked) == "closed"
    assert wake(parked, box, NOW) == EXPIRED
    commit(parked, EXPIRED, box)
    assert box.state(A) == KeyState(expired=True)


@pytest.mark.parametrize("until", PAST, ids=repr)
def test_time_that_is_past_wakes_at_once(until: Any) -> None:
    assert wake(park(Sleep(until=until), Box(), NOW), Box(), NOW) == Wake(reason="time")


@pytest.mark.parametrize("until", [MAX_AHEAD, NOW + MAX_AHEAD, timedelta(microseconds=1)])
def test_deadline_within_a_hundred_years_is_kept(until: Any) -> None:
    parked = park(sleep(A, until=until), Box(), NOW)

    assert parked.until == (until if isinstance(until, datetime) else NOW + until)
    assert wake(parked, Box(), NOW) is None


def test_local_clock_change_does_not_move_a_deadline() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    now = datetime(2026, 3, 29, 1, 30, tzinfo=berlin)
    until = datetime(2026, 3, 29, 3, 30, tzinfo=berlin)

    assert park(Sleep(until=until), Box(), now).until == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert park(Sleep(until=HOUR), Box(), now).until == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


UNREACHABLE: list[tuple[Any, str]] = [
    ((), "needs until, signals, or both"),
    ((SignalKey("s", ""),), "a key has 1 to"),
    ((SignalKey("s", "k" * 100_000),), "a key has 1 to"),
    ((SignalKey("s", "\ud800"),), "valid Unicode"),
    ((SignalKey("s", 7),), "a key is a string"),  # type: ignore[arg-type]
    ((SignalKey("a/b", "k"),), "signal name"),
    ((SignalKey("", "k"),), "signal name"),
    ((A, B, A), "listed twice"),
    (tuple(SignalKey("s", str(n)) for n in range(MAX_KEYS + 1)), "at most 64 keys"),
    (tuple(SignalKey("s", f"{n}" + "k" * 8_000) for n in range(20)), "the keys take"),
    (("app.answer/a",), r"made by a token's key\(\)"),
    (A, "signals must be a list or tuple"),
    ("ab", "signals must be a list or tuple"),
    (None, "signals must be a list or tuple"),
]


@pytest.mark.parametrize(("signals", "why"), UNREACHABLE)
def test_keys_nobody_can_deliver_under_are_an_invalid_park(signals: Any, why: str) -> None:
    with pytest.raises(InvalidPark, match=why):
        park(Sleep(signals=signals), Box(), NOW)


@pytest.mark.parametrize(
    ("rest", "why"),
    [
        ({"checkpoint": math.nan}, "checkpoint and ask: nan"),
        ({"checkpoint": {"at": NOW}}, "datetime is not JSON data"),
        ({"checkpoint": "x" * 300 * KIB}, "checkpoint and ask take"),
        ({"ask": Ask(text="x" * 300 * KIB)}, "checkpoint and ask take"),
        ({"ask": 7}, "ask must be a text or an Ask"),
    ],
)
def test_park_that_could_not_be_stored_is_invalid(rest: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidPark, match=why):
        park(Sleep(signals=(A,), **rest), Box(), NOW)


def test_refused_sleep_changes_nothing() -> None:
    box = Box()

    with pytest.raises(InvalidPark):
        park(sleep(A, A, until=HOUR), box, NOW)
    assert box == Box()


@pytest.mark.parametrize("key", ["a/b", "a\nb", '"', "../x", "😀", " ", "k" * 5_000])
def test_park_on_any_text_as_a_key_is_woken_by_it(key: str) -> None:
    box, wanted = Box(), SignalKey("app.answer", key)
    parked = turned(park(sleep(wanted), box, NOW))

    assert give(box, wanted, parked) == "delivered"
    assert wake(parked, box, NOW) == by(wanted)


def test_nothing_wakes_before_a_value_or_the_deadline() -> None:
    parked = park(sleep(A, until=HOUR), Box(), NOW)

    assert wake(parked, Box(), NOW + HOUR - timedelta(microseconds=1)) is None
    assert wake(park(sleep(A), Box(), NOW), Box(), NOW + 10_000 * HOUR) is None


def test_value_that_came_early_wakes_the_sleep_at_once() -> None:
    box = Box()
    assert give(box, A) == "delivered"

    assert wake(park(sleep(A, until=HOUR), box, NOW), box, NOW) == by(A)


def test_value_before_the_deadline_wins_however_late_it_is_seen() -> None:
    box = Box()
    parked = park(sleep(A, until=HOUR), box, NOW)

    assert give(box, A, parked, NOW + HOUR - timedelta(microseconds=1)) == "delivered"
    assert wake(parked, box, NOW + 10 * HOUR) == by(A)


def test_value_at_the_deadline_is_closed_though_nothing_woke_yet() -> None:
    box = Box()
    parked = park(sleep(A, until=HOUR), box, NOW)

    assert give(box, A, parked, NOW + HOUR) == "closed"
    assert wake(parked, box, NOW + HOUR) == EXPIRED


def test_deadline_expires_every_listed_key_and_no_other() -> None:
    box = Box()
    give(box, C)
    parked = park(sleep(A, B, until=HOUR), box, NOW)

    commit(parked, EXPIRED, box)

    assert [box.state(key).expired for key in (A, B, C)] == [True, True, False]
    assert [give(box, key) for key in (A, B, C)] == ["closed", "closed", "duplicate"]


def test_time_without_keys_wakes_as_time_and_expires_nothing() -> None:
    box = Box()
    parked = park(sleep(until=HOUR), box, NOW)

    assert wake(parked, box, NOW + HOUR) == Wake(reason="time")
    commit(parked, Wake(reason="time"), box)
    assert box == Box()


def test_silence_and_a_refusal_are_told_apart() -> None:
    asked, silent = Box(), Box()
    parked = park(sleep(A, until=HOUR), asked, NOW)

    give(asked, A, parked, value={"allow": False})

    assert wake(parked, asked, NOW + HOUR) == by(A)
    assert wake(parked, silent, NOW + HOUR) == EXPIRED


@pytest.mark.parametrize("restarted", [False, True])
def test_key_that_woke_the_task_cannot_be_slept_on_again(restarted: bool) -> None:
    box = Box()
    give(box, A)
    commit(park(sleep(A), box, NOW), by(A), box)
    if restarted:
        box = Box.model_validate_json(box.model_dump_json())

    with pytest.raises(InvalidPark, match="has woken this task before"):
        park(sleep(B, A, until=HOUR), box, NOW)
    assert give(box, A) == "duplicate"


def test_key_that_expired_cannot_be_slept_on_again() -> None:
    box = Box()
    commit(park(sleep(A, until=-HOUR), box, NOW), EXPIRED, box)

    with pytest.raises(InvalidPark, match="has expired"):
        park(sleep(A), box, NOW)


def test_wake_is_taken_once() -> None:
    box = Box()
    give(box, A)
    parked = park(sleep(A), box, NOW)
    commit(parked, by(A), box)
    before = box.model_dump_json()

    assert wake(parked, box, NOW) is None
    with pytest.raises(ValueError, match="no unused value"):
        commit(parked, by(A), box)
    assert box.model_dump_json() == before


def test_first_listed_key_with_a_value_wins_and_the_others_keep_theirs() -> None:
    box = Box()
    parked = park(sleep(A, B, C), box, NOW)
    give(box, C, parked)
    give(box, B, parked)

    woke = wake(parked, box, NOW)

    assert woke == by(B)
    commit(parked, by(B), box)
    assert wake(park(sleep(A, C), box, NOW), box, NOW) == by(C)
    assert give(box, A) == "delivered"


def test_key_left_over_from_a_wake_is_open_after_the_old_deadline() -> None:
    box = Box()
    parked = park(sleep(A, B, until=HOUR), box, NOW)
    give(box, A, parked)
    commit(parked, by(A), box)

    assert give(box, B, None, NOW + 2 * HOUR) == "delivered"


def test_turns_and_restarts_do_not_move_a_deadline() -> None:
    parked = park(sleep(A, until=10 * HOUR), Box(), NOW)

    for _ in range(3):
        parked = turned(parked)

    assert parked.until == NOW + 10 * HOUR


def test_fixing_a_fixed_deadline_again_does_not_move_it() -> None:
    first = park(sleep(A, until=10 * HOUR), Box(), NOW)

    again = park(sleep(A, until=first.until), Box(), NOW + 6 * HOUR)

    assert again.until == first.until


def test_question_asked_again_under_its_memo_keeps_its_deadline() -> None:
    box = Box()

    def ask(now: datetime) -> Park:
        until = datetime.fromisoformat(box.memo("until", (now + 10 * HOUR).isoformat()))
        return park(sleep(A, until=until), box, now)

    asked = [ask(NOW + hours * HOUR) for hours in (0, 4, 6, 8)]

    assert {parked.until for parked in asked} == {NOW + 10 * HOUR}


@given(
    until=st.none()
    | st.timedeltas()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.floats()
    | st.integers()
    | st.text(),
    keys=st.lists(st.builds(SignalKey, st.text(max_size=3), st.text(st.characters(), max_size=3)), max_size=4),
    checkpoint=st.none() | st.floats() | st.text(st.characters()) | st.lists(st.floats()),
)
def test_any_sleep_at_all_parks_or_is_an_invalid_park(until: Any, keys: list[SignalKey], checkpoint: Any) -> None:
    try:
        parked = park(Sleep(checkpoint=checkpoint, until=until, signals=keys), Box(), NOW)
    except InvalidPark as refused:
        str(refused).encode()
        return

    assert turned(parked) == parked
    assert parked.until is None or NOW <= parked.until <= NOW + MAX_AHEAD
    assert parked.keys or parked.until is not None
