"""How long a server asks its clients to wait: `retry-after-ms` and `Retry-After`, as seconds from now.

Pure: the time comes in as `now`. A value that cannot be read counts as not said.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_NUMBER = re.compile(r"[0-9]+(\.[0-9]+)?")


def retry_after_seconds(headers: Mapping[str, str], now: datetime) -> float | None:
    """The wait that `headers` ask for, in seconds, never negative and not capped; None when they ask for none.

    Read in this order: `retry-after-ms`, `Retry-After` as a number (fractions too), `Retry-After` as an
    HTTP date. A date is measured from the response's own `Date`, so that a skewed clock does no harm,
    and from `now` (aware) only when that is missing. A date that has passed asks for nothing.
    """
    said = {name.lower(): value.strip() for name, value in headers.items()}
    milliseconds = _number(said.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    wish = said.get("retry-after", "")
    seconds = _number(wish)
    return seconds if seconds is not None else _seconds_until(wish, _http_date(said.get("date", "")) or now)


def _number(text: str) -> float | None:
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    return number if math.isfinite(number) else None


def _seconds_until(text: str, start: datetime) -> float | None:
    date = _http_date(text)
    if date is None:
        return None
    seconds = (date - start).total_seconds()
    return seconds if seconds >= 0 else None


def _http_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    # HTTP dates are GMT, also in the form that does not say so.
    return date if date.tzinfo is not None else date.replace(tzinfo=UTC)
