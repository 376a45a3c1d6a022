"""Drills for a person: each with its steps, and in the end the matrix. Pure: reports come in, a drawing comes out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tarry.cli.render import plain
from tarry.drills.kit.cell import Cell, Policy
from tarry.drills.kit.drill import Drill
from tarry.drills.kit.report import DrillReport, StepReport
from tarry.drills.kit.score import POLICIES, duplicates

DECLARATIONS: dict[Policy, str] = {
    "unsafe": "unsafe",
    "safe": "safe, no key",
    "keyed": "safe, keyed",
    "reconciled": "unsafe, reconciled",
}


def listing(drills: Sequence[Drill]) -> Table:
    """The names, and what each is about."""
    table = _table("drill", "what it shows")
    for drill in drills:
        table.add_row(drill.name, Text(drill.title))
    return table


def progress(drill: Drill, step: StepReport) -> str:
    """A line for a step that is over."""
    return f"{'ok' if step.ok else 'FAILED':6} {step.seconds:5.1f} s  {drill.name}: {plain(step.title)}"


def told(report: DrillReport) -> Text:
    """A drill that is over: of each step what it did, what it expected, what it found."""
    drawn = Text.assemble("\n", (report.name, "bold"), f"  {report.title}  ", _mark(report.ok), "\n")
    for number, step in enumerate(report.steps, start=1):
        drawn.append_text(Text.assemble(f"\n{number:2}  ", (step.title, "underline"), "  ", _mark(step.ok), "\n"))
        for what in step.did:
            drawn.append(f"    did       {plain(what)}\n")
        drawn.append(f"    expected  {plain(step.expected)}\n")
        for fact in step.found or ("as expected",):
            drawn.append(f"    found     {plain(fact)}\n")
    if report.problem:
        drawn.append(f"\n    ended before its end: {plain(report.problem)}\n", "red")
    return drawn


def summary(reports: Sequence[DrillReport], folder: Path) -> RenderableType:
    """What it all came to: the drills, and the matrix when a drill made one."""
    parts: list[RenderableType] = [Text("\nDrills\n", "bold underline"), _drills(reports)]
    if matrix := [cell for report in reports for cell in report.matrix]:
        parts += [Text("\nEffects of each call, and what the model read\n", "bold underline"), _matrix(matrix)]
        parts.append(Text(f"\nHappened twice: {_score(matrix)}."))
    parts.append(Text(f"\nWhat is left: {folder}"))
    return Group(*parts)


def _drills(reports: Sequence[DrillReport]) -> Table:
    table = _table("drill", "steps", "seconds", "", numbers=("steps", "seconds"))
    for report in reports:
        table.add_row(report.name, str(len(report.steps)), f"{report.seconds:.1f}", _mark(report.ok))
    return table


def _matrix(matrix: Sequence[Cell]) -> Table:
    """A row for each crash point, a column for each policy."""
    table = _table("the worker was killed", *DECLARATIONS.values())
    for point in dict.fromkeys(cell.point for cell in matrix):
        cells = {cell.policy: cell for cell in matrix if cell.point == point}
        table.add_row(Text(point), *(_cell(cells[policy]) if policy in cells else "" for policy in POLICIES))
    return table


def _cell(cell: Cell) -> Text:
    """How many effects each call had, and what the model read."""
    return Text(f"{cell.effects / cell.calls:g} {' and '.join(cell.read)}", "bold" if cell.duplicates else "")


def _score(matrix: Sequence[Cell]) -> str:
    return ", ".join(f"{DECLARATIONS[policy]} {count}" for policy, count in duplicates(matrix).items())


def _mark(ok: bool) -> Text:
    return Text("ok", "green") if ok else Text("FAILED", "bold red")


def _table(*columns: str, numbers: tuple[str, ...] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left")
    return table
