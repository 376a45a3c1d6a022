"""Which signals this process knows, by the task queue it serves: for the one place in a workflow that may ask.

An update's validator is not replayed, so it may look here to answer a sender at once; everything else
learns of the registry through activities (spec §1.4).
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping
from typing import Any

from signals import tokens
from signals.box import Delivery
from signals.tokens import Signal

_SIGNALS: dict[str, Mapping[str, Signal[Any]]] = {}


def serve(task_queue: str, signals: Mapping[str, Signal[Any]]) -> None:
    """A worker for these signals is made; of several on one queue the newest counts."""
    _SIGNALS[task_queue] = signals


def signals_of(task_queue: str) -> Mapping[str, Signal[Any]] | None:
    """The signals of the worker on this queue; None when this process has none there."""
    return _SIGNALS.get(task_queue)


JUDGING_SECONDS = 0.5
"""How long a validator of the application may take here: a workflow's thread may not be held for two."""


def judge(task_queue: str, delivery: Delivery) -> str | None:
    """Why the registry refuses a delivery; None when it does not, or cannot be asked here."""
    signals = signals_of(task_queue)
    if signals is None:
        return None
    found: list[str | None] = []

    def look() -> None:
        # What a validator raises is a refusal; this alone is not, and nobody pressed a key for this thread.
        with contextlib.suppress(KeyboardInterrupt):
            found.append(tokens.judge(signals, delivery.signal, delivery.value, delivery.version))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(JUDGING_SECONDS)
    return found[0] if found else None
