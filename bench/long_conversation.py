"""What a long conversation costs: 2 KB in and 2 KB out in each turn, no tools, compacted as it grows.

Sizes and events are added up turn by turn from the server's own counts, over every workflow of the conversation
and all its runs; only the turn itself is timed.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table

from bench.agents import TURN_BYTES
from bench.histories import runs_of
from bench.support import SERVER_FLAGS, Rig, agent, count, main, rig

CONVERSATION = "long"

FIRST = 20
"""The turn whose time the last one's is held against."""

_TIMED = 10
"""Turns whose median is the time of a turn."""


@dataclass(frozen=True)
class Size:
    """Of one run of a workflow, as the server counts it."""

    events: int = 0
    bytes: int = 0

    def __add__(self, other: Size) -> Size:
        return Size(self.events + other.events, self.bytes + other.bytes)


@dataclass(frozen=True)
class Mark:
    """What the conversation had cost after `turn` turns, and what a turn cost since the mark before."""

    turn: int
    conversation_bytes: int
    generations_bytes: int
    bytes: int
    events: int
    bytes_per_turn: int
    events_per_turn: float
    ms_per_turn: float


class Ledger:
    """Adds up the sizes of a conversation's workflows, the run that is open included."""

    def __init__(self, on: Rig) -> None:
        self._on = on
        self._runs: dict[str, Size] = {}
        self._open = ""
        self._generations = Size()

    async def take(self, generation_id: str) -> None:
        """Count a turn that has been answered."""
        run_id, size = await self._size(CONVERSATION)
        if self._open not in ("", run_id):
            # It has grown since it was last looked at: its end is in no other count.
            self._runs[self._open] = (await self._size(CONVERSATION, self._open))[1]
        self._open, self._runs[run_id] = run_id, size
        self._generations += (await self._size(generation_id))[1]

    async def _size(self, workflow_id: str, run_id: str | None = None) -> tuple[str, Size]:
        described = await self._on.client.get_workflow_handle(workflow_id, run_id=run_id).describe()
        info = described.raw_description.workflow_execution_info
        return described.run_id, Size(info.history_length, info.history_size_bytes)

    def mark(self, turn: int, seconds: list[float], before: Mark | None) -> Mark:
        """The state after `turn` turns, which took `seconds`."""
        conversation = sum(self._runs.values(), Size())
        total = conversation + self._generations
        turns = turn - (before.turn if before else 0)
        return Mark(
            turn=turn,
            conversation_bytes=conversation.bytes,
            generations_bytes=self._generations.bytes,
            bytes=total.bytes,
            events=total.events,
            bytes_per_turn=round((total.bytes - (before.bytes if before else 0)) / turns),
            events_per_turn=round((total.events - (before.events if before else 0)) / turns, 2),
            ms_per_turn=round(statistics.median(seconds[-_TIMED:]) * 1000, 1),
        )


async def converse(turns: int) -> dict[str, Any]:
    """The facts: a mark at 20, 50, 200, 500, every power of ten and the last turn, and what was carried and stored."""
    wanted = {FIRST, 50, 200, 500, turns, *(10**power for power in range(1, 7))}
    marks: list[Mark] = []
    seconds: list[float] = []
    async with rig(agent("bench.agents:talker")) as on:
        ledger = Ledger(on)
        for turn in track(range(1, turns + 1), "turns", console=Console(stderr=True), transient=True):
            began = time.perf_counter()
            generation_id = await _turn(on, turn)
            seconds.append(time.perf_counter() - began)
            await ledger.take(generation_id)
            if turn in wanted:
                marks.append(ledger.mark(turn, seconds, marks[-1] if marks else None))
        carried = [run.input_bytes for run in await runs_of(on.client, CONVERSATION) if run.workflow_id == CONVERSATION]
        compactions = [entry for entry in await on.harness.conversation(CONVERSATION).transcript() if entry.head]
        first = next((mark for mark in marks if mark.turn == FIRST), None)
        return {
            "server_flags": SERVER_FLAGS,
            "turns": turns,
            "turn_bytes": {"in": TURN_BYTES, "out": TURN_BYTES},
            "marks": [asdict(mark) for mark in marks],
            "last_to_first": None if first is None else round(marks[-1].ms_per_turn / first.ms_per_turn, 2),
            "compactions": len(compactions),
            "continued_as_new": len(carried) - 1,
            "carried_bytes": {"last": carried[-1], "largest": max(carried)} if carried[1:] else None,
            "store_bytes": _stored(on.store),
        }


async def _turn(on: Rig, turn: int) -> str:
    """Say something of the usual size; the run that answered it."""
    text = f"{turn} ".ljust(TURN_BYTES, "x")
    settled = await (await on.harness.conversation(CONVERSATION).submit(text)).wait()
    if settled.status != "done":
        raise AssertionError(settled)
    return settled.generation_id


def _stored(store: Path) -> int:
    return sum(file.stat().st_size for file in store.rglob("*") if file.is_file())


def show(console: Console, facts: dict[str, Any]) -> None:
    """The facts as a person reads them."""
    sizes = facts["turn_bytes"]
    title = f"A conversation of {facts['turns']} turns, {sizes['in']:,} bytes in and {sizes['out']:,} out in each"
    table = Table("turn", title=title, title_justify="left")
    for heading in ("conversation", "runs", "both", "KB/turn", "events/turn", "ms/turn"):
        table.add_column(heading, justify="right")
    for mark in facts["marks"]:
        sizes = (mark[name] / 1000 for name in ("conversation_bytes", "generations_bytes", "bytes", "bytes_per_turn"))
        numbers = (f"{number:,.1f}" for number in (*sizes, mark["events_per_turn"], mark["ms_per_turn"]))
        table.add_row(str(mark["turn"]), *numbers)
    console.print(table)
    carried = facts["carried_bytes"]
    then = f", carrying {carried['last']:,} bytes at last and {carried['largest']:,} at most" if carried else ""
    ratio = facts["last_to_first"]
    if ratio is not None:
        console.print(f"A turn at the end takes {ratio} times as long as at turn {FIRST}.", highlight=False)
    console.print(
        "Histories in KB. KB and events of a turn: since the row before; ms: median of the last ten turns.\n"
        f"Compacted {facts['compactions']} times. Continued as new {facts['continued_as_new']} times{then}. "
        f"Store: {facts['store_bytes']:,} bytes.",
        highlight=False,
    )
    console.print(f"Server: {', '.join(facts['server_flags'])}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What a conversation costs as it grows: bytes, events and time.")
    parser.add_argument("--turns", type=count, default=200, help="default: %(default)s")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    main(converse(options.turns), None if options.json else show)
