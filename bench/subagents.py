"""What a tree of agents costs: very many children of one root, each with a first turn, a message and a follow-up.

Counted in the histories of the tree's workflow, of the root with its runs and calls, and of the children; only the
last figures are times. The model is scripted; a child's takes 200 ms, so that children meet.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from temporalio.api.enums.v1 import EventType
from tenacity import AsyncRetrying, retry_if_result, wait_fixed

from bench.histories import Run, runs_of
from bench.subagents_app import LIMIT, MAX_CHILDREN, PEAK
from bench.support import SERVER_FLAGS, Rig, StartWorker, count, main, rig
from tarry.client.agents import AgentTree
from tarry.core.messages import ToolMessage
from tarry.core.subagents.protocol import AgentRow
from tarry.processes import worker

ROOT = "root"
LIMITS = (4, 16)
SAMPLE = 10
"""Children whose histories are read; all have the same."""
PEAK_FILE = "peak"

PHASES = {
    "a child: start, first turn": "start {n}",
    "its completion, read when all are there": "read",
    "a message": "send {n}",
    "a follow-up: turn, completion awaited and read": "follow up {n}, read",
}


@dataclass(frozen=True)
class Spent:
    """Of some workflows, all their runs included."""

    events: float = 0
    bytes: float = 0
    activities: float = 0

    @classmethod
    def of(cls, runs: Sequence[Run]) -> Spent:
        """What these runs took."""
        scheduled = sum(run.count(EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED) for run in runs)
        return cls(sum(run.cost.events for run in runs), sum(run.cost.bytes for run in runs), scheduled)

    def since(self, before: Spent, number: int) -> Spent:
        """What came since, for each of so many."""
        return Spent(
            round((self.events - before.events) / number, 2),
            round((self.bytes - before.bytes) / number),
            round((self.activities - before.activities) / number, 2),
        )


@dataclass(frozen=True)
class Standing:
    """What there is by now: the tree, the root, and some children together."""

    tree: Spent = Spent()
    root: Spent = Spent()
    children: Spent = Spent()
    sampled: int = 1

    def since(self, before: Standing, number: int) -> dict[str, Any]:
        """What came since, for each of so many."""
        return {
            "tree": asdict(self.tree.since(before.tree, number)),
            "root": asdict(self.root.since(before.root, number)),
            "child": asdict(self.children.since(before.children, self.sampled)),
        }


def _worker(limit: int) -> StartWorker:
    return lambda log, environment: worker(
        "bench.subagents_app:app",
        log=log,
        environment={**environment, LIMIT: str(limit), PEAK: str(log.with_name(PEAK_FILE))},
    )


async def delegate(children: int, limits: Sequence[int]) -> dict[str, Any]:
    """The facts: the same work under each limit."""
    with Progress(console=Console(stderr=True), transient=True) as progress:
        steps = progress.add_task("limits", total=len(limits) * len(PHASES))
        measured = []
        for limit in limits:
            async with rig(_worker(limit)) as on:
                progress.update(steps, description=f"limit {limit}")
                measured.append(await _measure(on, children, limit, lambda: progress.advance(steps)))
    return {"server_flags": SERVER_FLAGS, "children": children, "limits": measured}


async def _measure(on: Rig, children: int, limit: int, advance: Callable[[], None]) -> dict[str, Any]:
    await _ask(on, "read")  # of nothing: the root and its tree are there
    tree = await on.harness.agents(ROOT)
    before, phases = await _standing(on, tree, ()), dict[str, Any]()
    for phase, text in PHASES.items():
        began = time.perf_counter()
        told = await _ask(on, text.format(n=children))
        ids = await _all_idle(tree)
        spent = time.perf_counter() - began
        if text.endswith("read") and told != str(children):
            raise AssertionError(f"{told} completions were read, of {children}")
        now = await _standing(on, tree, ids)
        phases[phase] = {**now.since(before, children), "seconds": round(spent, 1)}
        before = now
        advance()
    seconds = sum(found["seconds"] for found in phases.values())
    return {
        "limit": limit,
        "peak": int((on.store.parent / PEAK_FILE).read_text()),
        "phases": phases,
        "waits": await _waits(on),
        **await _tree_facts(on, tree),
        "seconds": round(seconds, 1),
        "children_per_second": round(children / seconds, 2),
    }


async def _tree_facts(on: Rig, tree: AgentTree) -> dict[str, Any]:
    runs = await runs_of(on.client, tree.id)
    carried = [run.input_bytes for run in runs[1:]]
    return {
        "tree_runs": len(runs),
        "carried_bytes": {"last": carried[-1], "largest": max(carried)} if carried else None,
        "list_bytes": len((await tree.list()).model_dump_json()),
    }


async def _ask(on: Rig, text: str) -> str:
    settled = await (await on.harness.conversation(ROOT).submit(text)).wait()
    if settled.status != "done":
        raise AssertionError(settled)
    return settled.answer_text or ""


async def _all_idle(tree: AgentTree) -> list[str]:
    """The ids of all children, once none works."""
    patient = AsyncRetrying(retry=retry_if_result(lambda agents: not all(row.state == "idle" for row in agents)))
    found: tuple[AgentRow, ...] = await patient.copy(wait=wait_fixed(0.2))(_agents, tree)
    return [row.agent_id for row in found]


async def _agents(tree: AgentTree) -> tuple[AgentRow, ...]:
    return (await tree.list()).agents


async def _standing(on: Rig, tree: AgentTree, ids: Sequence[str]) -> Standing:
    sample = ids[:: max(1, len(ids) // SAMPLE)][:SAMPLE]
    children = [run for one in sample for run in await runs_of(on.client, one)]
    return Standing(
        tree=Spent.of(await runs_of(on.client, tree.id)),
        root=Spent.of(await runs_of(on.client, ROOT)),
        children=Spent.of(children),
        sampled=len(sample),
    )


async def _waits(on: Rig) -> int:
    """How often the root has called `wait_agent`."""
    entries = await on.harness.conversation(ROOT).transcript()
    return sum(isinstance(entry.message, ToolMessage) and entry.message.name == "wait_agent" for entry in entries)


def show(console: Console, facts: dict[str, Any]) -> None:
    """The facts as a person reads them."""
    for found in facts["limits"]:
        _show_limit(console, facts["children"], found)
    console.print(
        "Each figure is for one child, message or turn: events, activities and bytes of histories.", highlight=False
    )
    console.print(f"Server: {', '.join(facts['server_flags'])}", highlight=False, soft_wrap=True)


def _show_limit(console: Console, children: int, found: dict[str, Any]) -> None:
    title = f"{children} children of one root, at most {found['limit']} at once; the most at once were {found['peak']}"
    table = Table("", "where", title=title, title_justify="left")
    for heading in ("events", "activities", "bytes", "seconds"):
        table.add_column(heading, justify="right")
    for phase, parts in found["phases"].items():
        for part in ("tree", "root", "child"):
            spent, is_first = parts[part], part == "tree"
            numbers = (f"{spent['events']:g}", f"{spent['activities']:g}", f"{spent['bytes']:,}")
            table.add_row(phase if is_first else "", part, *numbers, f"{parts['seconds']:g}" if is_first else "")
    console.print(table)
    carried = found["carried_bytes"]
    then = f", carrying {carried['last']:,} bytes at last and {carried['largest']:,} at most" if carried else ""
    console.print(
        f"{found['seconds']:g} s, {found['children_per_second']:g} children/s; {found['waits']} calls of wait_agent.\n"
        f"Runs of the tree's workflow: {found['tree_runs']}{then}. A list of all: {found['list_bytes']:,} bytes.",
        highlight=False,
    )


def _children(text: str) -> int:
    number = count(text)
    if number > MAX_CHILDREN:
        raise argparse.ArgumentTypeError(f"at most {MAX_CHILDREN} are started")
    return number


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What very many subagents cost: events, bytes, activities and time.")
    parser.add_argument("--children", type=_children, default=200, help=f"at most {MAX_CHILDREN}; default: %(default)s")
    parser.add_argument("--limits", type=count, nargs="+", default=LIMITS, help="turns at once; default: 4 16")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    main(delegate(options.children, options.limits), None if options.json else show)
