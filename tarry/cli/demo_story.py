"""The policies demo for a person: its steps as they happen, then both sides of the crash, then the table."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tarry.cli import render
from tarry.demo.policies import Facts, Policy, PolicyFacts, Report
from tarry.embedded import EmbeddedServer

DECLARATIONS: dict[Policy, str] = {
    "default": "@tool",
    "safe": '@tool(replay="safe"), no key',
    "keyed": '@tool(replay="safe"), keyed',
}

_TO_TAKE_AWAY = (
    "A crash between an effect and its result leaves a doubt that no store can settle. By default a tool is not run "
    "again, and the model is told of the doubt. A safe one is run again: harmless only when whoever takes the effect "
    "knows the call's key."
)

_WIDE = 1_000


class Story:
    """Told on stdout. A terminal also sees what is being waited for."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)

    @contextmanager
    def steps(self) -> Iterator[Report]:
        """Show each reported step with the seconds since the start."""
        begun = time.monotonic()
        self._print(Text("A worker is killed inside open_ticket, right after the ticket was opened.\n", "bold"))
        with self._console.status("running"):

            def report(policy: Policy, step: str) -> None:
                spent = f"{time.monotonic() - begun:5.1f} s"
                self._print(Text.assemble((spent, "dim"), f"  {policy:9}", render.plain(step)))

            yield report

    def tell(self, facts: Facts, server: EmbeddedServer) -> None:
        """Tell what is left when all scenarios are over."""
        default = facts.policies["default"]
        self._heading(f"Both sides of the crash, under {DECLARATIONS['default']}")
        self._print(Text("Outside of the agent", "bold"))
        self._print(_outside(default))
        self._print(Text("\nInside, its transcript\n", "bold"))
        for entry in default.transcript:
            self._print(render.entry(entry))
        self._heading("The same crash under each declaration: tickets in the tracker, runs of open_ticket")
        self._print(_comparison(facts.policies))
        self._print(f"\n{_TO_TAKE_AWAY}")
        self._heading("Look at it")
        self._print(f"The run's page      {facts.web_ui}")
        self._print(f"…once this is over  {_server_command(Path(facts.state), server)}")
        self._print(f"What is left        {facts.state}")

    def _heading(self, text: str) -> None:
        self._print(Text(f"\n{text}\n", "bold underline"))

    def _print(self, what: Text | Table | str) -> None:
        self._console.print(what, markup=False, soft_wrap=not isinstance(what, Table))


def _outside(facts: PolicyFacts) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    opened = ", ".join(facts.ticket_ids)
    table.add_row("tracker", f"{facts.after_crash} after the crash, {facts.tickets} in the end ({opened})")
    table.add_row("ledger", ", ".join(f"{tool} ran {_times(runs)}" for tool, runs in facts.ledger.items()))
    table.add_row("worker 1", f"ended by {facts.worker_1}, missed after {facts.noticed_after} s")
    return table


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _comparison(policies: Mapping[Policy, PolicyFacts]) -> Table:
    table = Table("declaration", box=None, pad_edge=False, header_style="dim")
    for column in ("after crash", "in the end", "runs"):
        table.add_column(column, justify="right")
    table.add_column("committed result")
    for policy, facts in policies.items():
        counts = (facts.after_crash, facts.tickets, facts.ledger.get("open_ticket", 0))
        table.add_row(Text(DECLARATIONS[policy]), *map(str, counts), Text(facts.result))
    return table


def _server_command(state: Path, server: EmbeddedServer) -> str:
    """What brings the server back with this state, its pages under the same addresses."""
    python = os.path.relpath(sys.executable) if Path(sys.executable).is_relative_to(Path.cwd()) else sys.executable
    port = urlsplit(server.ui_url or "").port
    database = state / "temporal.db"
    return shlex.join([python, "-m", "tarry.embedded", "--db", str(database), "--port", "0", "--ui-port", str(port)])
