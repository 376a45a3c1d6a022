"""Gauges of all work of a task queue, looked at by gateways and supervisors, so that they hold with no worker up.

Each of these processes shows the same: whoever reads several takes the largest (spec §24.7).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

from temporalio.client import Client
from temporalio.common import MetricMeter

from tarry.client.standing import STATES, Standing, look
from tarry.seeing import metrics
from tarry.seeing.exporting import meter_of
from tarry.seeing.metrics import show
from tarry.settings import Settings

_SHORTEST_PAUSE = 10.0
_LONGEST_PAUSE = 60.0
"""An alert takes a look of two minutes ago for a server that is away."""
_LOAD = 0.1
"""The part of the time that looking may take."""


@asynccontextmanager
async def showing(client: Client, settings: Settings, workers: Sequence[str]) -> AsyncIterator[None]:
    """Show the gauges within the context, where this process serves metrics; `workers`: those that code names."""
    if settings.metrics is None:
        yield
        return
    meter = meter_of(client, settings.task_queue)
    looking = asyncio.create_task(_show_on(client, settings.task_queue, workers, meter))
    try:
        yield
    finally:
        looking.cancel()


async def _show_on(client: Client, task_queue: str, workers: Sequence[str], meter: MetricMeter) -> None:
    """Look and show, for ever; while no server answers the newest look stands, and says when it was."""
    is_away = False
    while True:
        began = time.monotonic()
        try:
            show_standing(meter, await look(client, task_queue, datetime.now(UTC), workers))
            is_away = False
        # One that stops looking would be noticed by nobody.
        except Exception as error:
            if not is_away:
                logging.warning("the gauges are not up to date: %s", error)
            is_away = True
        await asyncio.sleep(pause_after(time.monotonic() - began))


def pause_after(took: float) -> float:
    """Seconds from a look that took so many to the next one."""
    return min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, took * (1 / _LOAD - 1)))


def show_standing(meter: MetricMeter, found: Standing) -> None:
    """Set every gauge; one without anything to count is 0."""
    for kind, state in _places(found.parked):
        show(meter, metrics.PARKED, found.parked[kind, state], kind=kind, state=state)
        show(meter, metrics.PARKED_OLDEST, _age(found, found.since.get((kind, state))), kind=kind, state=state)
    for kind in sorted({*metrics.KINDS.values(), *found.held}):
        show(meter, metrics.HELD, found.held[kind], kind=kind)
    show(meter, metrics.OVERDUE, found.overdue)
    show(meter, metrics.OVERDUE_OLDEST, _age(found, found.due))
    show(meter, metrics.QUESTIONS, found.questions)
    show(meter, metrics.QUESTIONS_OLDEST, _age(found, found.asked))
    show(meter, metrics.RUNS_OPEN, found.runs)
    for (kind, name), number in found.backlog.items():
        show(meter, metrics.BACKLOG, number, type=kind, worker=name)
        show(meter, metrics.POLLERS, found.pollers[kind, name], type=kind, worker=name)
    show(meter, metrics.LOOKED_AT, found.at.timestamp())


def _places(parked: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return sorted({*parked, *((kind, state) for kind in ("call", "task") for state in STATES)})


def _age(found: Standing, since: datetime | None) -> float:
    return 0.0 if since is None else max(0.0, (found.at - since).total_seconds())
