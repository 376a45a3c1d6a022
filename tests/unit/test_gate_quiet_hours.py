"""Quiet hours by the clock on the wall, over both changes of the clock (spec §5.1)."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tarry.gates import quiet_hours, quiet_until

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia", "UTC"]
SECOND = timedelta(seconds=1)


def berlin(text: str, fold: int = 0) -> datetime:
    """A time as a clock in Berlin shows it; `fold`: for the second time."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).astimezone(UTC)


@pytest.mark.parametrize(
    ("now", "until"),
    [
        ("2026-06-01 21:59:59", None),
        ("2026-06-01 22:00", "2026-06-02 07:00"),
        ("2026-06-02 06:59:59", "2026-06-02 07:00"),
        ("2026-06-02 07:00", None),
    ],
)
def test_a_night_begins_at_its_start_and_is_over_at_its_end(now: str, until: str | None) -> None:
    assert quiet_until(berlin(now), time(22), time(7), BERLIN) == (until and berlin(until))


def test_hours_of_one_day_are_quiet_on_that_day() -> None:
    assert quiet_until(berlin("2026-06-01 13:00"), time(12), time(14), BERLIN) == berlin("2026-06-01 14:00")
    assert quiet_until(berlin("2026-06-01 15:00"), time(12), time(14), BERLIN) is None


def test_a_night_in_which_the_clock_is_put_forward_is_an_hour_shorter() -> None:
    begins = berlin("2026-03-28 22:00")

    assert quiet_until(begins, time(22), time(7), BERLIN) == begins + timedelta(hours=8)


def test_a_night_in_which_the_clock_is_put_back_is_an_hour_longer() -> None:
    begins = berlin("2026-10-24 22:00")

    assert quiet_until(begins, time(22), time(7), BERLIN) == begins + timedelta(hours=10)


def test_an_end_that_the_clock_never_shows_is_the_moment_of_the_change() -> None:
    change = datetime(2026, 3, 29, 1, tzinfo=UTC)

    assert quiet_until(change - SECOND, time(22), time(2, 30), BERLIN) == change
    assert quiet_until(change, time(22), time(2, 30), BERLIN) is None


def test_a_start_that_the_clock_never_shows_is_the_moment_of_the_change() -> None:
    change = datetime(2026, 3, 29, 1, tzinfo=UTC)

    assert quiet_until(change - SECOND, time(2, 30), time(7), BERLIN) is None
    assert quiet_until(change, time(2, 30), time(7), BERLIN) == berlin("2026-03-29 07:00")


def test_an_end_that_the_clock_shows_twice_is_the_second_one() -> None:
    second = berlin("2026-10-25 02:30", fold=1)

    assert quiet_until(berlin("2026-10-25 02:30"), time(22), time(2, 30), BERLIN) == second
    assert quiet_until(second, time(22), time(2, 30), BERLIN) is None


def test_a_start_that_the_clock_shows_twice_is_the_first_one() -> None:
    first = berlin("2026-10-25 02:30")

    assert quiet_until(first - SECOND, time(2, 30), time(7), BERLIN) is None
    assert quiet_until(first, time(2, 30), time(7), BERLIN) == berlin("2026-10-25 07:00")


times = st.times().map(lambda at: at.replace(microsecond=0, tzinfo=None, fold=0))
instants = st.integers(0, 19 * 366 * 24 * 3600).map(lambda ahead: datetime(2011, 1, 1, tzinfo=UTC) + ahead * SECOND)


@given(instants, times, times, st.sampled_from(ZONES))
@example(datetime(2026, 10, 25, 0, 30, tzinfo=UTC), time(2, 30), time(2, 0), "Europe/Berlin")
@example(datetime(2026, 3, 29, 0, 59, tzinfo=UTC), time(2, 10), time(2, 5), "Europe/Berlin")
@example(datetime(2011, 12, 30, 11, tzinfo=UTC), time(22), time(7), "Pacific/Apia")
def test_it_is_quiet_up_to_the_end_and_not_from_then_on(now: datetime, start: time, end: time, zone: str) -> None:
    assume(start != end)
    place = ZoneInfo(zone)
    until = quiet_until(now, start, end, place)
    if until is None:
        return

    assert now < until
    assert quiet_until(until - timedelta(microseconds=1), start, end, place) == until
    assert quiet_until(until, start, end, place) is None


@given(instants, times, times, st.sampled_from(ZONES))
def test_the_clock_on_the_wall_decides_where_no_change_is_near(
    now: datetime, start: time, end: time, zone: str
) -> None:
    assume(start != end)
    place = ZoneInfo(zone)
    offsets = {(now + timedelta(days=day)).astimezone(place).utcoffset() for day in range(-2, 4)}
    assume(len(offsets) == 1)
    shown = now.astimezone(place).time()
    is_quiet = start <= shown < end if start < end else shown >= start or shown < end
    until = quiet_until(now, start, end, place)

    assert (until is not None) == is_quiet
    assert until is None or until.astimezone(place).time() == end


@pytest.mark.parametrize(
    ("start", "end"), [(time(7), time(7)), (time(7, tzinfo=UTC), time(8)), (time(7, microsecond=1), time(8))]
)
def test_hours_that_say_nothing_clear_are_refused(start: time, end: time) -> None:
    with pytest.raises(ValueError, match="whole seconds"):
        quiet_hours(start, end, "Europe/Berlin")
