"""What a run costs: two model requests and one tool call, ours against a bare workflow, side by side.

Each round gives both a fresh server and a fresh worker, in alternating order, since what else runs on the
machine moves both: only the ratios within a round compare.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import statistics
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from bench.agents import ANSWER, QUESTION
from bench.flat import TASK_QUEUE, WORKFLOW
from bench.histories import Cost, cost_of
from bench.support import SERVER_FLAGS, Rig, StartWorker, agent, count, cpu_seconds, flat, main, rig

Ask = Callable[[Rig, str], Awaitable[str]]
"""Has a lane's question answered; returns the id of the workflow that owns the run."""


@dataclass(frozen=True)
class Figures:
    """One side in one round. Times are in milliseconds; CPU time is of a run among many at once."""

    events: float
    workflow_tasks: float
    history_bytes: float
    p50_ms: float
    p95_ms: float
    runs_per_second: float
    server_cpu_ms: float
    worker_cpu_ms: float
    cpu_ms: float


LABELS = {
    "events": "events",
    "workflow_tasks": "workflow tasks",
    "history_bytes": "history bytes",
    "p50_ms": "p50 of a run alone, ms",
    "p95_ms": "p95 of a run alone, ms",
    "runs_per_second": "runs/s",
    "server_cpu_ms": "server CPU, ms",
    "worker_cpu_ms": "worker CPU, ms",
    "cpu_ms": "server and worker CPU, ms",
}


async def ask_ours(rig: Rig, lane: str) -> str:
    """Every lane is a conversation that goes on."""
    settled = await (await rig.harness.conversation(lane).submit(QUESTION)).wait()
    if settled.answer_text != ANSWER:
        raise AssertionError(settled)
    return lane


async def ask_flat(rig: Rig, lane: str) -> str:
    """Every run is a workflow."""
    workflow_id = f"{lane}-{uuid.uuid4().hex}"
    answer = await rig.client.execute_workflow(WORKFLOW, QUESTION, id=workflow_id, task_queue=TASK_QUEUE)
    if answer != ANSWER:
        raise AssertionError(answer)
    return workflow_id


SIDES: dict[str, tuple[StartWorker, Ask]] = {
    "ours": (agent("bench.agents:one_call"), ask_ours),
    "flat": (flat, ask_flat),
}


async def compare(runs: int, rounds: int, concurrency: int) -> dict[str, Any]:
    """The facts: every round's figures, and what follows from them."""
    measured: list[dict[str, Figures]] = []
    first_runs: dict[str, Cost] = {}
    with Progress(console=Console(stderr=True), transient=True) as progress:
        steps = progress.add_task("rounds", total=rounds * len(SIDES))
        for number in range(rounds):
            figures: dict[str, Figures] = {}
            for side in list(SIDES)[:: -1 if number % 2 else 1]:
                progress.update(steps, description=f"round {number + 1} of {rounds}, {side}")
                first_runs[side], figures[side] = await _measure(side, runs, concurrency)
                progress.advance(steps)
            measured.append(figures)
    return {
        "server_flags": SERVER_FLAGS,
        "runs": runs,
        "rounds": [{side: asdict(figures[side]) for side in SIDES} for figures in measured],
        "concurrency": concurrency,
        "first_run": {side: asdict(first_runs[side]) for side in SIDES},
        "median": {side: _medians([figures[side] for figures in measured]) for side in SIDES},
        "ratio": {name: _ratio(measured, name) for name in LABELS},
    }


async def _measure(side: str, runs: int, concurrency: int) -> tuple[Cost, Figures]:
    """What the first run of a lane costs, and the figures of later ones."""
    start_worker, ask = SIDES[side]
    async with rig(start_worker) as on:
        together = await _together(on, ask, runs, concurrency)
        owners = {await ask(on, "alone")}
        first = await cost_of(on.client, *owners)
        seconds: list[float] = []
        for _ in range(runs):
            began = time.perf_counter()
            owners.add(await ask(on, "alone"))
            seconds.append(time.perf_counter() - began)
        return first, _figures(await cost_of(on.client, *owners) - first, sorted(seconds), together)


@dataclass(frozen=True)
class Together:
    """Many runs at once: how fast, and the CPU seconds of a run."""

    runs_per_second: float
    server: float
    worker: float


async def _together(on: Rig, ask: Ask, runs: int, concurrency: int) -> Together:
    lanes = [f"lane-{number}" for number in range(concurrency)]
    # Once for every lane beforehand: a conversation that begins is another matter than one that goes on.
    await asyncio.gather(*(ask(on, lane) for lane in lanes))
    waiting = iter(range(runs))
    began, server, worker = time.perf_counter(), cpu_seconds(on.server_pid), cpu_seconds(on.worker_pid)
    await asyncio.gather(*(_serve(on, ask, lane, waiting) for lane in lanes))
    return Together(
        runs_per_second=runs / (time.perf_counter() - began),
        server=(cpu_seconds(on.server_pid) - server) / runs,
        worker=(cpu_seconds(on.worker_pid) - worker) / runs,
    )


async def _serve(on: Rig, ask: Ask, lane: str, waiting: Iterator[int]) -> None:
    """Take from the runs that are left, one after the other."""
    for _ in waiting:
        await ask(on, lane)


def _figures(cost: Cost, seconds: Sequence[float], together: Together) -> Figures:
    """`seconds` are sorted: one for each run that was alone."""
    runs = len(seconds)
    return Figures(
        events=round(cost.events / runs, 2),
        workflow_tasks=round(cost.tasks / runs, 2),
        history_bytes=round(cost.bytes / runs),
        p50_ms=_ms(statistics.median(seconds)),
        p95_ms=_ms(seconds[math.ceil(0.95 * runs) - 1]),
        runs_per_second=round(together.runs_per_second, 1),
        server_cpu_ms=_ms(together.server),
        worker_cpu_ms=_ms(together.worker),
        cpu_ms=_ms(together.server + together.worker),
    )


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 1)


def _medians(figures: Sequence[Figures]) -> dict[str, float]:
    return {name: statistics.median(getattr(one, name) for one in figures) for name in LABELS}


def _ratio(measured: Sequence[dict[str, Figures]], name: str) -> dict[str, float]:
    """Ours in units of the flat one, taken within each round."""
    ratios = [getattr(figures["ours"], name) / getattr(figures["flat"], name) for figures in measured]
    return {
        "median": round(statistics.median(ratios), 2),
        "low": round(min(ratios), 2),
        "high": round(max(ratios), 2),
    }


def show(console: Console, facts: dict[str, Any]) -> None:
    """The facts as a person reads them."""
    title = f"A run: two model requests, one tool call. Medians; rounds: {len(facts['rounds'])}, runs: {facts['runs']}"
    table = Table("of one run", title=title, title_justify="left")
    for heading in ("ours", "flat", "ours / flat", "range"):
        table.add_column(heading, justify="right")
    for name, label in LABELS.items():
        ours, flat = (facts["median"][side][name] for side in SIDES)
        ratio = facts["ratio"][name]
        table.add_row(
            label, f"{ours:,g}", f"{flat:,g}", f"{ratio['median']:.2f}", f"{ratio['low']:.2f}–{ratio['high']:.2f}"
        )
    console.print(table)
    first = facts["first_run"]["ours"]
    console.print(
        f"The first run of a conversation: {first['events']} events, {first['tasks']} workflow tasks, "
        f"{first['bytes']:,} bytes. Runs/s and CPU with {facts['concurrency']} at once."
    )
    console.print(f"Server: {', '.join(facts['server_flags'])}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What a run costs, against a bare workflow with the same activities.")
    parser.add_argument("--runs", type=count, default=48, help="alone, and at once, in a round (default: %(default)s)")
    parser.add_argument("--rounds", type=count, default=5, help="default: %(default)s")
    parser.add_argument("--concurrency", type=count, default=24, help="runs at once (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    main(compare(options.runs, options.rounds, options.concurrency), None if options.json else show)
