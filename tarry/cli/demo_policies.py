"""The policies demo for a person: both sides of the crash, then the table of the declarations."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.table import Table
from rich.text import Text

from tarry.cli import render
from tarry.cli.demo_story import Story
from tarry.demo.policies import Facts, Policy, PolicyFacts
from tarry.embedded import EmbeddedServer

TITLE = "A worker is killed inside open_ticket, right after the ticket was opened."

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


def tell(story: Story, facts: Facts, server: EmbeddedServer) -> None:
    """Tell what is left when all scenarios are over."""
    default = facts.policies["default"]
    story.heading(f"Both sides of the crash, under {DECLARATIONS['default']}")
    story.print(Text("Outside of the agent", "bold"))
    story.print(_outside(default))
    story.print(Text("\nInside, its transcript\n", "bold"))
    for entry in default.transcript:
        story.print(render.entry(entry))
    story.heading("The same crash under each declaration: tickets in the tracker, runs of open_ticket")
    story.print(_comparison(story, facts.policies))
    story.print(f"\n{_TO_TAKE_AWAY}")
    story.look(facts.web_ui, Path(facts.state), server)


def _outside(facts: PolicyFacts) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    opened = ", ".join(facts.ticket_ids)
    table.add_row("tracker", f"{facts.after_crash} after the crash, {facts.tickets} in the end ({opened})")
    table.add_row("ledger", ", ".join(f"{tool} ran {_times(runs)}" for tool, runs in facts.ledger.items()))
    table.add_row("worker 1", f"ended by {facts.worker_1}, missed after {facts.noticed_after} s")
    return table


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _comparison(story: Story, policies: Mapping[Policy, PolicyFacts]) -> Table:
    numbers = ("after crash", "in the end", "runs")
    table = story.table("declaration", *numbers, "committed result", numbers=numbers)
    for policy, facts in policies.items():
        counts = (facts.after_crash, facts.tickets, facts.ledger.get("open_ticket", 0))
        table.add_row(Text(DECLARATIONS[policy]), *map(str, counts), Text(facts.result))
    return table
