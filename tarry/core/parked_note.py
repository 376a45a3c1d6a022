"""What lists and the Web UI say of a parked task: bounded, since a value that is too long ends a workflow.

Pure (spec §9.1, §9.2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from signals.data import clean, json_size
from signals.parking import Park
from signals.tokens import SignalKey
from tarry.core.gates import arguments_digest
from tarry.core.text import bound_text, canonical_json
from tarry.core.waiting import ParkedNote
from tarry.core.wake_command import wake_command

MAX_ITEMS = 8
"""Items in `TarryWaitingFor`, the last of which may be `+N`."""
MAX_ITEM_BYTES = 120
# As JSON, so that all of a note takes at most 2 KiB.
MAX_KEYS_BYTES = 900
MAX_TEXT_BYTES = 500
MAX_ARGUMENTS_BYTES = 250
MAX_WHOM_BYTES = 80
_HASHED = 12


def labels(keys: Sequence[SignalKey]) -> list[str]:
    """`signal/key` of each, long ones as `signal/#hash`; those beyond the eighth as `+N`."""
    shown = [label(key) for key in _first(keys)]
    rest = len(keys) - len(shown)
    return [*shown, f"+{rest}"] if rest else shown


def parked_note(park: Park, tool: str, arguments: dict[str, Any], excerpt: dict[str, Any] | None = None) -> ParkedNote:
    """The note that lists read (spec §9.2). `excerpt`: what is shown of the arguments; None: as they are."""
    shown = tuple(_fitting(map(label, _first(park.keys))))
    return ParkedNote(
        since=park.since,
        until=park.until,
        keys=shown,
        more_keys=len(park.keys) - len(shown),
        text=bounded(park.ask.text, MAX_TEXT_BYTES) if park.ask else "",
        for_whom=bounded(park.ask.for_whom, MAX_WHOM_BYTES) if park.ask else "",
        tool=tool,
        arguments=bounded(canonical_json(arguments if excerpt is None else excerpt), MAX_ARGUMENTS_BYTES),
        digest=arguments_digest(tool, arguments),
    )


def in_words(park: Park, note: ParkedNote) -> str:
    """What it waits for, on one line."""
    if note.text:
        return bound_text(note.text, max_bytes=200, max_lines=1).text.strip()
    if park.on:
        return f"{len(park.on)} tasks"
    return ", ".join(note.keys[:3]) or _until(park)


def parked_details(task_id: str, park: Park, note: ParkedNote) -> str:
    """Markdown for the Web UI: what it waits for, since when, until when, for whom, and what wakes it."""
    whom = f" for {note.for_whom}" if note.for_whom else ""
    lines = [f"**Waiting{whom}** since {park.since:%Y-%m-%d %H:%M:%S} UTC, {_until(park)}."]
    if note.text:
        lines.append("\n".join(f"> {line}" for line in note.text.splitlines()))
    if park.keys:
        waited = ", ".join([f"`{key}`" for key in note.keys] + ([f"{note.more_keys} more"] if note.more_keys else []))
        lines.append(f"For: {waited}. The first of them wakes it:")
        lines.append(f"```\n{wake_command(task_id, park.keys[0], {})}\n```")
    return "\n\n".join(lines)


def _until(park: Park) -> str:
    return "without a deadline" if park.until is None else f"until {park.until:%Y-%m-%d %H:%M:%S} UTC"


def _first(keys: Sequence[SignalKey]) -> Sequence[SignalKey]:
    """Those that are shown; the last item says how many are not."""
    return keys if len(keys) <= MAX_ITEMS else keys[: MAX_ITEMS - 1]


def label(key: SignalKey) -> str:
    """A key in lists: `signal/key`, or `signal/#hash` where that is long."""
    text = clean(str(key), len(str(key)))
    if len(text.encode()) <= MAX_ITEM_BYTES and text.isprintable():
        return text
    hashed = hashlib.sha256(key.key.encode("utf-8", "replace")).hexdigest()[:_HASHED]
    name = bound_text(clean(key.signal, MAX_ITEM_BYTES), max_bytes=MAX_ITEM_BYTES - 14, max_lines=1).text
    return f"{name}/#{hashed}"


def is_hashed(shown: str) -> bool:
    """Whether a key, as lists show it, is the hash of one that is too long for them: nothing can be sent to it."""
    return len(shown) == _HASHED + 1 and shown[0] == "#" and set(shown[1:]) <= set("0123456789abcdef")


def _fitting(shown: Iterable[str]) -> Iterator[str]:
    size = 0
    for item in shown:
        size += json_size(item) + 1
        if size > MAX_KEYS_BYTES:
            return
        yield item


def bounded(text: str, limit: int) -> str:
    """A beginning of it that takes at most `limit` bytes as JSON, where one character takes up to twelve."""
    bounded = bound_text(text, max_bytes=limit).text
    while (excess := json_size(bounded) - 2 - limit) > 0:
        bounded = bounded[: -max(excess // 12, 1)]
    return bounded
