"""What a turn boundary takes out of the inbox, and in which order it is placed (spec §6.6).

Pure. There are two boundaries: after a round of tools, when the run goes on, and the final one, when no run is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from tarry.core.inbox import Queued
from tarry.core.mail import Taken
from tarry.core.protocol import QueueMode
from tarry.core.transcript import Position, Transcript, user_draft
from tarry.core.writes import place_write

BoundaryKind = Literal["after_tools", "final"]


def selected(queue: Sequence[Queued], boundary: BoundaryKind) -> list[Queued]:
    """The items that are placed now: all writes, then inputs, each in the order of their admission.

    Of steers the oldest or all, by the mode that the oldest came with; of follow-ups likewise, at the final boundary
    alone. A reset after tools ends the run, so that no steer joins it.
    """
    writes = [item for item in queue if item.write is not None]
    if boundary == "after_tools" and any(is_reset(item) for item in writes):
        return writes
    steers = _by_mode([item for item in queue if item.is_input and item.steer], "steering_mode")
    others = [item for item in queue if item.is_input and not item.steer] if boundary == "final" else []
    chosen = {item.request_id for item in (*steers, *_by_mode(others, "follow_up_mode"))}
    return writes + _of_one_run([item for item in queue if item.request_id in chosen])


def _of_one_run(inputs: list[Queued]) -> list[Queued]:
    """An input whose answer has a form of its own is answered alone."""
    if inputs and inputs[0].settings.output is not None:
        return inputs[:1]
    return [item for item in inputs if item.settings.output is None]


def is_reset(item: Queued | Taken) -> bool:
    """Whether it leaves nothing before it in the context."""
    return item.write is not None and item.write.kind == "reset"


def place_taken(
    transcript: Transcript, items: Sequence[Queued | Taken], run: int, before: Position | None = None
) -> dict[str, int]:
    """Append what a boundary brought, in order; the index of each entry by request id, or `STALE`.

    `before`: the place that the newest head marker before the transcript names.
    """
    places: dict[str, int] = {}
    for item in items:
        if item.write is None:
            places[item.request_id] = transcript.append(user_draft(item.content, item.at, run)).index
        else:
            places[item.request_id] = place_write(transcript, item.write, item.content, item.at, run, before)
    return places


def _by_mode(items: list[Queued], setting: Literal["steering_mode", "follow_up_mode"]) -> list[Queued]:
    mode: QueueMode = getattr(items[0].settings, setting) if items else "all"
    return items if mode == "all" else items[:1]
