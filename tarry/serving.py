"""Which signals this process knows, by the task queue it serves: for the one place in a workflow that may ask.

An update's validator is not replayed, so it may look here to answer a sender at once; everything else
learns of the registry through activities (spec §1.4).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from signals.tokens import Signal

_SIGNALS: dict[str, Mapping[str, Signal[Any]]] = {}


def serve(task_queue: str, signals: Mapping[str, Signal[Any]]) -> None:
    """A worker for these signals is made; of several on one queue the newest counts."""
    _SIGNALS[task_queue] = signals


def signals_of(task_queue: str) -> Mapping[str, Signal[Any]] | None:
    """The signals of the worker on this queue; None when this process has none there."""
    return _SIGNALS.get(task_queue)
