"""Text as it may enter history: valid Unicode, valid JSON, bounded for the model.

Pure. Every string and number that comes from a model, a tool or a sender passes through here
once, at the boundary (spec §4.11); nothing behind it has to look again.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Literal

from signals.data import MAX_DEPTH

MAX_MODEL_BYTES = 50 * 1024
MAX_MODEL_LINES = 2_000
"""What a model is shown of one text, unless a caller says otherwise (spec §4.11)."""

REPLACEMENT = "\ufffd"

_SURROGATE = re.compile("[\ud800-\udfff]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


def clean_text(text: str) -> str:
    """Return `text` with each lone surrogate replaced by U+FFFD; a valid pair becomes one character."""
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return _SURROGATE.sub(REPLACEMENT, _PAIR.sub(_join, text))


def _join(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def clean_json(value: Any) -> Any:
    """Return plain JSON data: strings cleaned, NaN and the infinities as null, keys as strings.

    Raises:
        TypeError: `value` holds something that is not JSON data, or is nested deeper than `MAX_DEPTH`.
    """
    return _clean_json(value, MAX_DEPTH)


def _clean_json(value: Any, depth: int) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if not isinstance(value, dict | list | tuple):
        raise TypeError(f"{type(value).__name__} is not JSON data")
    if depth == 0:
        raise TypeError(f"JSON data is nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, dict):
        return {clean_text(str(key)): _clean_json(item, depth - 1) for key, item in value.items()}
    return [_clean_json(item, depth - 1) for item in value]


def canonical_json(value: Any) -> str:
    """The one JSON text of `value`: sorted keys, no blanks, no NaN. Equal data gives equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


@dataclass(frozen=True)
class Bounded:
    """Text cut to the limits, and how much was left out."""

    text: str
    dropped_bytes: int = 0
    dropped_lines: int = 0
    kept: Literal["head", "tail"] = "head"

    @property
    def is_cut(self) -> bool:
        """Whether anything was left out."""
        return self.dropped_bytes > 0


def bound_text(
    text: str,
    *,
    max_bytes: int = MAX_MODEL_BYTES,
    max_lines: int = MAX_MODEL_LINES,
    keep: Literal["head", "tail"] = "head",
) -> Bounded:
    """Keep the head, or the tail, of `text`: whole lines, at most `max_bytes` of UTF-8 and `max_lines` lines.

    A single line longer than the limit is cut at a character. Control characters other than tab
    and line ends are dropped, since providers refuse some of them.
    """
    clean = _CONTROLS.sub("", clean_text(text))
    if len(clean) <= max_lines and len(clean.encode()) <= max_bytes:
        return Bounded(clean)
    lines = clean.splitlines(keepends=True)
    wanted = lines if keep == "head" else lines[::-1]
    kept: list[str] = []
    size = 0
    for line in wanted[:max_lines]:
        size += len(line.encode())
        if size > max_bytes:
            break
        kept.append(line)
    whole = "".join(kept if keep == "head" else reversed(kept))
    part = whole if kept else _cut_at_character(wanted[0], max_bytes, keep)
    return Bounded(part, len(clean.encode()) - len(part.encode()), len(lines) - len(kept), keep)


def head_of(text: str, max_bytes: int) -> Bounded:
    """Keep as much of `text` as `max_bytes` of UTF-8 hold, cut at a character wherever its lines end.

    For what one agent reads of another: a long line behind a short one must not cost all of it.
    """
    clean = _CONTROLS.sub("", clean_text(text))
    part = _cut_at_character(clean, max_bytes, "head")
    return Bounded(part, len(clean.encode()) - len(part.encode()), clean.count("\n") - part.count("\n"))


def _cut_at_character(text: str, max_bytes: int, keep: Literal["head", "tail"]) -> str:
    data = text.encode()
    return (data[:max_bytes] if keep == "head" else data[-max_bytes:]).decode("utf-8", "ignore")
