"""What the tokens of the application say of deliveries, for every activity that has to know."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping
from typing import Any

from activities.runner import ToolThread
from signals import tokens
from signals.box import Delivery
from signals.tokens import Signal
from tarry.core.waiting import Verdict

JUDGING_SECONDS = 2.0
"""How long the validators and migrations of the application may take for one value."""


async def verdicts(signals: Mapping[str, Signal[Any]], deliveries: Iterable[Delivery]) -> tuple[Verdict, ...]:
    """A verdict for each delivery, in order: whether its token takes it, and in which version it is (spec §3.2)."""
    # All at once: however many of them keep a validator busy for ever, the others are answered in time.
    return tuple(await asyncio.gather(*(_verdict(signals, delivery) for delivery in deliveries)))


async def _verdict(signals: Mapping[str, Signal[Any]], delivery: Delivery) -> Verdict:
    # In a thread of its own: validators are the application's code, and the worker's loop does not wait for them.
    thread = ToolThread(
        lambda: tokens.judge(signals, delivery.signal, delivery.value, delivery.version),
        threading.Event(),
        "tarry-judge",
    )
    ended = await thread.wait(JUDGING_SECONDS)
    if ended is None:
        return Verdict(invalid=f"its validator gave no answer in {JUDGING_SECONDS:g} s")
    if ended.error is not None:
        return Verdict(invalid=f"its validator failed with {type(ended.error).__name__}")
    if ended.value is not None:
        return Verdict(invalid=ended.value)
    current = signals[delivery.signal].version
    return Verdict(version=current if delivery.version is None else delivery.version)
