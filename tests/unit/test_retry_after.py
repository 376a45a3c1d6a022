from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.retry_after import retry_after_seconds

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


def in_(seconds: float) -> str:
    return format_datetime(NOW + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"Retry-After": " 7 "}, 7.0),
        ({"retry-after": "0"}, 0.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "86400000"}, 86_400_000.0),
        ({"retry-after-ms": "1500"}, 1.5),
        ({"Retry-After-Ms": "1500", "Retry-After": "2"}, 1.5),
        ({"retry-after-ms": "soon", "retry-after": "2"}, 2.0),
        ({"retry-after": in_(7)}, 7.0),
        ({"retry-after": "Sunday, 01-Mar-26 12:00:07 GMT"}, 7.0),
        ({"retry-after": "Sun Mar  1 12:00:07 2026"}, 7.0),
        ({"retry-after": "Sun, 01 Mar 2026 14:00:07 +0200"}, 7.0),
    ],
)
def test_wait_is_read_from_milliseconds_then_seconds_then_a_date(
    headers: dict[str, str], seconds: float | None
) -> None:
    assert retry_after_seconds(headers, NOW) == seconds


@pytest.mark.parametrize(
    "garbage",
    [
        *("", "soon", "-7", "-0.5", "nan", "NaN", "inf", "-inf", "1e3", "1_000", "0x10", "7,5", "7 s", "٧", "9" * 400),
        *(in_(-1), "Sun, 99 Mar 2026 12:00:07 GMT", "Sun, 01 Mar 2026 25:61:61 GMT", "99999-01-01T00:00:00Z"),
    ],
)
def test_wait_that_cannot_be_read_or_has_passed_counts_as_not_said(garbage: str) -> None:
    assert retry_after_seconds({"retry-after": garbage}, NOW) is None
    assert retry_after_seconds({"retry-after-ms": garbage}, NOW) is None


def test_date_is_measured_from_the_servers_own_date_not_from_our_clock() -> None:
    headers = {"Date": in_(3600), "Retry-After": in_(3607)}

    assert retry_after_seconds(headers, NOW) == 7.0


def test_unreadable_server_date_leaves_our_clock_as_the_measure() -> None:
    assert retry_after_seconds({"Date": "today", "Retry-After": in_(7)}, NOW) == 7.0


@given(st.text() | st.from_regex(r"[A-Z][a-z]{2}, [0-9]{1,3} [A-Z][a-z]{2} [0-9]{1,6} [0-9:+ ]{1,12}(GMT)?"))
def test_no_header_text_raises_or_gives_a_negative_wait(text: str) -> None:
    headers = {"retry-after": text, "retry-after-ms": text, "date": text}

    seconds = retry_after_seconds(headers, NOW)

    assert seconds is None or 0 <= seconds < float("inf")
