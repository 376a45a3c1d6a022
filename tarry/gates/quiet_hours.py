"""Quiet hours: calls wait until they are over, by the clock on the wall of one place.

A gate that is asked again on every wake: a call that was approved during quiet hours still waits for their end.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from signals.parking import Sleep
from tarry.app import Extension
from tarry.hooks import Gate, HookApi, HookCall, Hooks

DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


def quiet_hours(
    start: time,
    end: time,
    zone: str,
    *,
    applies: Callable[[HookCall], bool] = lambda _: True,
    name: str = "quiet-hours",
) -> Extension:
    """A gate that lets no call run between `start` and `end`, every night or every day.

    Args:
        start: when quiet begins, in whole seconds.
        end: when it is over; not after `start` means on the next day.
        zone: an IANA name, such as `Europe/Berlin`.
        applies: to which calls. One that raises blocks the call.
        name: of the extension; another one for each further gate of this kind.

    Raises:
        ValueError: start and end are equal, name another zone, or are no whole seconds.
        ZoneInfoNotFoundError: this machine knows no such zone.
    """
    place = ZoneInfo(zone)
    if start == end or any(at.tzinfo is not None or at.microsecond for at in (start, end)):
        raise ValueError("start and end must differ, in whole seconds and without a zone of their own")

    def gate(call: HookCall, api: HookApi) -> Gate:
        until = quiet_until(api.now(), start, end, place) if applies(call) else None
        return None if until is None else Sleep(until=until)

    return Extension(name, hooks=Hooks(before_tool=gate))


def quiet_until(now: datetime, start: time, end: time, zone: ZoneInfo) -> datetime | None:
    """The instant at which quiet is over, None when it is not quiet at `now`.

    Where the clock is put back, quiet begins at the first and ends at the last time that it shows the hour; where it
    is put forward over the hour, at the change.
    """
    until, today = now, now.astimezone(zone).date()
    for ahead in range(-1, 3):
        day = today + ahead * DAY
        begins = _instant(day, start, zone, fold=0)
        ends = _instant(day if start < end else day + DAY, end, zone, fold=1)
        # Around a change one night may reach into the next one.
        if begins <= until < ends:
            until = ends
    return None if until == now else until.astimezone(UTC)


def _instant(day: date, at: time, zone: ZoneInfo, *, fold: int) -> datetime:
    """When the clock shows that time: for the first or, with `fold`, the last time that day."""
    shown = datetime.combine(day, at, zone)
    first, last = (shown.replace(fold=one).astimezone(UTC) for one in (0, 1))
    if last < first:  # it is never shown: by the offset of before it would be later than by that of after
        return _change(last, first, zone)
    return last if fold else first


def _change(before: datetime, after: datetime, zone: ZoneInfo) -> datetime:
    """The second at which the clock is put forward."""
    old = before.astimezone(zone).utcoffset()
    while after - before > SECOND:
        middle = before + ((after - before) // SECOND // 2) * SECOND
        if middle.astimezone(zone).utcoffset() == old:
            before = middle
        else:
            after = middle
    return after
