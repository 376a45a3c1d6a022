"""What lists and the Web UI say of a parked task: bounded, since a value that is too long ends a workflow.

Pure (spec §9.1, §9.2).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from signals.data import clean
from signals.parking import Park
from signals.tokens import SignalKey
from tarry.core.gates import arguments_digest
from tarry.core.text import bound_text, canonical_json
from tarry.core.waiting import ParkedNote
from tarry.core.wake_command import wake_command

MAX_ITEMS = 8
"""Items in `TarryWaitingFor`, the last of which may be `+N`."""
MAX_ITEM_BYTES = 120
MAX_TEXT_BYTES = 600
MAX_ARGUMENTS_BYTES = 300
MAX_WHOM_BYTES = 100


def labels(keys: Sequence[SignalKey]) -> list[str]:
    """`signal/key` of each, long ones as `signal/#hash`; those beyond the eighth as `+N`."""
    shown = [_label(key) for key in keys[:MAX_ITEMS]]
    if len(keys) > MAX_ITEMS:
        shown[-1] = f"+{len(keys) - MAX_ITEMS + 1}"
    return shown


def parked_note(park: Park, tool: str, arguments: dict[str, Any]) -> ParkedNote:
    """The note that lists read (spec §9.2)."""
    shown = labels(park.keys)
    hidden = len(park.keys) - MAX_ITEMS + 1 if len(park.keys) > MAX_ITEMS else 0
    text = canonical_json(arguments)
    return ParkedNote(
        since=park.since,
        until=park.until,
        keys=tuple(shown[:-1] if hidden else shown),
        more_keys=hidden,
        text=_bounded(park.ask.text, MAX_TEXT_BYTES) if park.ask else "",
        for_whom=_bounded(park.ask.for_whom, MAX_WHOM_BYTES) if park.ask else "",
        tool=tool,
        arguments=_bounded(text, MAX_ARGUMENTS_BYTES),
        digest=arguments_digest(tool, arguments),
    )


def parked_details(task_id: str, park: Park, note: ParkedNote) -> str:
    """Markdown for the Web UI: what it waits for, since when, until when, for whom, and what wakes it."""
    whom = f" for {note.for_whom}" if note.for_whom else ""
    lines = [f"**Waiting{whom}** since {park.since:%Y-%m-%d %H:%M:%S} UTC, {_until(park)}."]
    if note.text:
        lines.append("> " + note.text.replace("\n", "\n> "))
    if park.keys:
        waited = ", ".join([f"`{key}`" for key in note.keys] + ([f"{note.more_keys} more"] if note.more_keys else []))
        lines.append(f"For: {waited}. The first of them wakes it:")
        lines.append(f"```\n{wake_command(task_id, park.keys[0], {})}\n```")
    return "\n\n".join(lines)


def _until(park: Park) -> str:
    return "without a deadline" if park.until is None else f"until {park.until:%Y-%m-%d %H:%M:%S} UTC"


def _label(key: SignalKey) -> str:
    text = clean(str(key), len(str(key)))
    if len(text.encode()) <= MAX_ITEM_BYTES and text.isprintable():
        return text
    hashed = hashlib.sha256(key.key.encode("utf-8", "replace")).hexdigest()[:12]
    name = bound_text(clean(key.signal, MAX_ITEM_BYTES), max_bytes=MAX_ITEM_BYTES - 14, max_lines=1).text
    return f"{name}/#{hashed}"


def _bounded(text: str, limit: int) -> str:
    return bound_text(text, max_bytes=limit).text
