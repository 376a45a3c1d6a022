"""Plain JSON data: what may be stored and carried over, and how many bytes it takes.

Pure. Refused, never repaired: data that JSON changes on its way would be other data after a turn of the run.
"""

from __future__ import annotations

import json
import math
from typing import Any

MAX_DEPTH = 100
"""Levels of lists and objects. Far below what any parser on the way gives up at."""


class NotJson(ValueError):
    """Something that is no plain JSON data. The text says what."""


def json_text(value: Any) -> str:
    """The compact JSON text of `value`; read again it gives equal data.

    Raises:
        NotJson: it holds NaN, an infinity, a lone surrogate, an object with keys that are no strings, or
            anything else that is not JSON data; or it is nested deeper than `MAX_DEPTH`.
    """
    _check(value, MAX_DEPTH)
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError as error:  # Python prints no integer of thousands of digits
        raise NotJson(str(error)) from None


def json_size(value: Any) -> int:
    """The bytes of `value` as compact JSON.

    Raises:
        NotJson: it is no plain JSON data.
    """
    return len(json_text(value).encode())


def clean(text: str, limit: int) -> str:
    """At most `limit` characters of `text`, each lone surrogate replaced: safe for any message and payload."""
    return text[:limit].encode("utf-8", "replace").decode()


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        _check_text(value)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise NotJson(f"{value} is not a JSON number")
    elif isinstance(value, dict | list | tuple):
        _check_items(value, depth)
    elif value is not None and not isinstance(value, int):
        raise NotJson(f"{type(value).__name__} is not JSON data")


def _check_text(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise NotJson("a text holds a lone surrogate") from None


def _check_items(items: dict[Any, Any] | list[Any] | tuple[Any, ...], depth: int) -> None:
    if depth == 0:
        raise NotJson(f"the data is nested deeper than {MAX_DEPTH} levels")
    if isinstance(items, dict):
        for name in items:
            if not isinstance(name, str):
                raise NotJson("a name in an object is not a string")
            _check_text(name)
        items = list(items.values())
    for item in items:
        _check(item, depth - 1)
