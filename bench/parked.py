"""What parked work costs while it waits, and how soon it goes on: tool calls with a key and a deadline an hour ahead.

Figures are of one server with its state in a file and of one worker, which is stopped and started on the way. All that
is counted is exact; memory and times are of this machine and this moment.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import math
import sqlite3
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.table import Table

from bench.fleet import Fleet, Send, pollers_since
from bench.histories import Cost
from bench.support import FILE_FLAGS, Rig, agent, count, cpu_seconds, main, resident_bytes, rig

_LATENCIES = 100
"""Calls woken one by one, by each road, warm and cold: a tenth of all where there are fewer."""
_WARM_UP = 3

Figures = dict[str, Any]


async def measure(calls: int, watch: int) -> Figures:
    """The facts. Parked calls are watched for `watch` seconds with no worker up."""
    with Status("starting", console=Console(stderr=True)) as status:
        async with rig(agent("bench.parked_app:app"), in_file=True) as on:
            return await _Bench(on, calls, watch, status.update).run()


class _Bench:
    """One pass over all that is measured, on one rig."""

    def __init__(self, on: Rig, calls: int, watch: int, say: Callable[[str], None]) -> None:
        self._on = on
        self._calls = calls
        self._watch = watch
        self._say = say
        self._fleet = Fleet(on)
        self._roads: dict[str, Send] = {"update": self._fleet.send_update, "signal": self._fleet.send_signal}

    async def run(self) -> Figures:
        await self._warm_up()
        parked = await self._park()
        resume = await self._resume()
        return {
            "server_flags": FILE_FLAGS,
            "calls": self._calls,
            **parked,
            "resume": resume,
            "workers_off": await self._workers_off(),
            "drain": await self._drain(),
            "conversation": asdict(await self._fleet.conversation_cost()),
        }

    async def _restart(self) -> None:
        """A worker that has imported everything, and has none of the parked calls in its cache."""
        await self._on.worker.stop()
        await self._on.worker.start()
        await self._warm_up()

    async def _warm_up(self) -> None:
        for send in self._roads.values():
            await self._fleet.park(_WARM_UP)
            await self._fleet.wake(self._fleet.parked[-_WARM_UP:], send)

    async def _park(self) -> Figures:
        self._say(f"parking {self._calls:,} calls")
        before = self._sizes()
        seconds = await self._fleet.park(self._calls)
        after = self._sizes()
        cached = min(self._calls, self._on.harness.settings.max_cached_workflows)
        of = {"server": self._calls, "worker": cached, "database": self._calls}
        return {
            "park": {"seconds": round(seconds, 2), "calls_per_second": round(self._calls / seconds, 1)},
            "bytes": {name: _growth(before[name], after[name], of[name]) for name in of},
            "cached_calls": cached,
            "history": _of_one(await self._fleet.sizes()),
        }

    def _sizes(self) -> dict[str, int]:
        on = self._on
        return {
            "server": resident_bytes(on.server_pid),
            "worker": resident_bytes(on.worker_pid),
            "database": _database_bytes(on),
        }

    async def _resume(self) -> Figures:
        samples = min(_LATENCIES, math.ceil(self._calls / 10))
        self._say("waking calls one by one, from the cache")
        # The last that were parked: a smaller cache has dropped the first ones.
        warm = {road: await self._wake(self._fleet.parked[-samples:], road) for road in self._roads}
        self._say("waking calls one by one, after a restart")
        await self._restart()
        cold = {road: await self._wake(self._fleet.parked[:samples], road) for road in self._roads}
        await self._fleet.park(self._calls - len(self._fleet.parked))
        return {"samples": samples} | {road: _compared(warm[road], cold[road]) for road in self._roads}

    async def _wake(self, ids: Sequence[str], road: str) -> Figures:
        return _percentiles(await self._fleet.wake(ids, self._roads[road]))

    async def _workers_off(self) -> Figures:
        self._say("watching parked calls with no worker up")
        await self._on.worker.stop()
        stopped = time.time()
        before = await self._fleet.sizes()
        cpu = await self._server_cpu()
        after = await self._fleet.sizes()
        return {
            "calls": len(after),
            "seconds": self._watch,
            "history_events": _events(after) - _events(before),
            "worker_processes": int(self._on.worker.pid is not None),
            "pollers": await pollers_since(self._on, stopped),
            # It goes on tidying for some seconds after work: the quietest one tells what waiting costs it.
            "server_cpu_ms": min(cpu),
        }

    async def _server_cpu(self) -> list[float]:
        """Milliseconds that the server uses in each second, left alone."""
        used: list[float] = []
        for _ in range(self._watch):
            before = cpu_seconds(self._on.server_pid)
            await asyncio.sleep(1)
            used.append(round((cpu_seconds(self._on.server_pid) - before) * 1000, 2))
        return used

    async def _drain(self) -> Figures:
        self._say("leaving a signal for each call, then starting a worker")
        calls = len(self._fleet.parked)
        sending = await self._fleet.signal_all()
        began = time.perf_counter()
        await self._on.worker.start()
        ready = time.perf_counter()
        await self._fleet.drained()
        seconds = time.perf_counter() - ready
        await self._fleet.check_woken()
        return {
            "calls": calls,
            "signals_per_second": round(calls / sending, 1),
            "worker_start_seconds": round(ready - began, 2),
            "seconds": round(seconds, 2),
            "calls_per_second": round(calls / seconds, 1),
        }


def _database_bytes(on: Rig) -> int:
    """The size of the file once all of its log has been written back into it."""
    with contextlib.closing(sqlite3.connect(f"file:{on.database}?mode=ro", uri=True)) as database:
        pages, size = (database.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    return int(pages * size)


def _growth(before: int, after: int, calls: int) -> Figures:
    per_call = round((after - before) / calls) if calls else None
    return {"before": before, "after": after, "per_call": per_call}


def _of_one(sizes: Sequence[Cost]) -> Figures:
    """The median: a task that waited a second for its busy worker is sent anew, for two events more."""
    events = [size.events for size in sizes]
    return {
        "events": statistics.median_low(events),
        "most_events": max(events),
        "bytes": statistics.median_low(size.bytes for size in sizes),
    }


def _events(sizes: Sequence[Cost]) -> int:
    return sum(size.events for size in sizes)


def _percentiles(seconds: Sequence[float]) -> Figures:
    ordered = sorted(seconds)
    p95 = ordered[math.ceil(0.95 * len(ordered)) - 1]
    return {"p50_ms": round(statistics.median(ordered) * 1000, 1), "p95_ms": round(p95 * 1000, 1)}


def _compared(warm: Figures, cold: Figures) -> Figures:
    return {"warm": warm, "cold": cold, "ratio": {name: round(cold[name] / warm[name], 2) for name in warm}}


def show(console: Console, facts: Figures) -> None:
    """The facts as a person reads them."""
    console.print(_sizes_table(facts), _times_table(facts["resume"]), _rest_table(facts), sep="\n\n")
    console.print(f"Server: {', '.join(facts['server_flags'])}", highlight=False, soft_wrap=True)


def _sizes_table(facts: Figures) -> Table:
    table = Table("MB", title=f"{facts['calls']:,} parked calls", title_justify="left")
    for heading in ("before", "after", "KB/call"):
        table.add_column(heading, justify="right")
    labels = {"server": "server memory", "worker": f"worker memory, {facts['cached_calls']:,} cached"}
    for name, figures in facts["bytes"].items():
        per_call = "–" if figures["per_call"] is None else f"{figures['per_call'] / 1000:,.1f}"
        sizes = (f"{figures[moment] / 1e6:,.1f}" for moment in ("before", "after"))
        table.add_row(labels.get(name, name), *sizes, per_call)
    return table


def _times_table(resume: Figures) -> Table:
    title = f"From sending to the woken run, ms; samples: {resume['samples']}"
    table = Table("road", title=title, title_justify="left")
    for heading in ("warm p50", "p95", "cold p50", "p95", "cold / warm p50", "p95"):
        table.add_column(heading, justify="right")
    for road in ("update", "signal"):
        figures = resume[road]
        times = [figures[state][name] for state in ("warm", "cold", "ratio") for name in ("p50_ms", "p95_ms")]
        table.add_row(road, *(f"{time:,g}" for time in times))
    return table


def _rest_table(facts: Figures) -> Table:
    park, off, drain, history, whole = (
        facts[part] for part in ("park", "workers_off", "drain", "history", "conversation")
    )
    rows = {
        "parking": f"{park['calls_per_second']:,g} calls/s",
        "history of a parked call": f"{history['events']} events, {history['bytes']:,} bytes",
        "with its conversation and run": f"{whole['events']} events, {whole['bytes']:,} bytes",
        f"waiting {off['seconds']} s, no worker": f"{off['history_events']} events, {off['pollers']} pollers",
        "server CPU, quietest second": f"{off['server_cpu_ms']:g} ms",
        "signals taken with no worker": f"{drain['signals_per_second']:,g} /s",
        "a worker starts": f"{drain['worker_start_seconds']:g} s",
        f"and drains {drain['calls']:,} calls": f"{drain['seconds']:g} s, {drain['calls_per_second']:,g} calls/s",
    }
    table = Table("what", "figure")
    for row in rows.items():
        table.add_row(*row)
    return table


def _calls(text: str) -> int:
    """Each call is woken once, and each of four samples is a tenth of them."""
    return count(text, least=10)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What parked calls cost, and how soon they go on.")
    parser.add_argument("--n", type=_calls, default=1_000, help="calls parked (default: %(default)s)")
    parser.add_argument("--watch", type=count, default=10, help="seconds of waiting watched (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    main(measure(options.n, options.watch), None if options.json else show)
