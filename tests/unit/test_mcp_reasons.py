"""What is said of a connection that failed, in results and in history: nothing that anybody could use (spec §15.3)."""

from __future__ import annotations

import pytest

from tarry.mcp.connection import _reason


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("for url 'https://host/mcp?key=k1'", "for url 'https://host/mcp?…'"),
        ("at http://me:word@host:8000/mcp#k1 now", "at http://host:8000/mcp?… now"),
        ("at https://host/a https://k1@host", "at https://host/a https://host"),
        ("Illegal header value b'Bearer k1\\n'", "Illegal header value (not shown)"),
        ("nobody\nlistens", "nobody listens"),
    ],
)
def test_addresses_are_told_without_keys_and_headers_not_at_all(told: str, said: str) -> None:
    assert _reason(ExceptionGroup("both", [ValueError(told)])) == f"ValueError: {said}"
