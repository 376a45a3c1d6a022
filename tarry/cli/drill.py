"""`tarry drill`: recovery drills on a server of their own, and the matrix of what each crash came to."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from tarry.cli import drill_story
from tarry.cli.exits import ExitCode, Problem
from tarry.cli.folders import new_folder
from tarry.cli.output import JsonOption, Output
from tarry.cli.processes import require_workers
from tarry.cli.running import run_async
from tarry.drills.kit.drill import Drill
from tarry.drills.kit.ground import Ground
from tarry.drills.kit.report import DrillReport, StepReport
from tarry.drills.kit.runner import play, play_all
from tarry.drills.kit.score import duplicates
from tarry.drills.registry import DRILLS, UnknownDrill, drills_named

STATES = Path(".tarry/drills")
"""Each time the state of all drills is kept in a folder of its own below this one."""


def drill(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...", help="Which drills to play.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Play all of them.")] = False,
    listing: Annotated[bool, typer.Option("--list", help="Only list them.")] = False,
    short: Annotated[bool, typer.Option("--short", help="Do in seconds what takes minutes, as CI does.")] = False,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the server of one drill and its Web UI up until Ctrl-C.")
    ] = False,
    as_json: JsonOption = False,
) -> int:
    """Kill workers, reset, terminate, restart the server, and see what became of it: steps, then a matrix.

    Each drill has a Temporal server of its own, on this machine and only for this, and effects are counted outside by
    a tracker. No other server is touched, whatever Temporal's settings name. Without a name: the list.
    """
    output = Output(as_json=as_json)
    if everything and names:
        raise typer.BadParameter("give names or --all, not both")
    chosen = list(DRILLS) if everything else _named(names or [])
    if listing or not chosen:
        return _list(chosen or DRILLS, output)
    if keep and len(chosen) != 1:
        raise typer.BadParameter("--keep is for one drill: name it")
    require_workers()
    folder = new_folder(STATES)
    if keep:
        reports = [run_async(_kept(chosen[0], folder, output, short=short))]
    else:
        reports = run_async(_played(chosen, folder, output, short=short))
    return _end(reports, folder, output, short=short)


def _named(names: Sequence[str]) -> list[Drill]:
    try:
        return drills_named(names)
    except UnknownDrill as error:
        raise Problem(ExitCode.PUT_RIGHT, "unknown_drill", str(error)) from None


def _list(drills: Sequence[Drill], output: Output) -> int:
    if output.as_json:
        output.json({"drills": [{"name": drill.name, "title": drill.title} for drill in drills]})
    else:
        output.table(drill_story.listing(drills))
    return ExitCode.DONE


async def _played(drills: Sequence[Drill], folder: Path, output: Output, *, short: bool) -> list[DrillReport]:
    def over(report: DrillReport) -> None:
        if not output.as_json:
            output.rich(drill_story.told(report))

    return await play_all(drills, folder, short=short, progress=_progress, over=over)


async def _kept(drill: Drill, folder: Path, output: Output, *, short: bool) -> DrillReport:
    async def keep(ground: Ground, report: DrillReport) -> None:
        if not output.as_json:
            output.rich(drill_story.told(report))
            output.rich(
                f"The server is up until Ctrl-C: TEMPORAL_ADDRESS={ground.server.address} {ground.server.ui_url}"
            )
        # Here Ctrl-C is the ordinary end.
        with contextlib.suppress(asyncio.CancelledError):
            await ground.server.wait()
            raise ground.server.death()

    return await play(drill, folder / drill.name, short=short, progress=_progress, keep=keep)


def _progress(drill: Drill, step: StepReport) -> None:
    """On stderr, terminal or not: a job of CI that says nothing for a minute looks like one that hangs."""
    print(drill_story.progress(drill, step), file=sys.stderr, flush=True)


def _end(reports: Sequence[DrillReport], folder: Path, output: Output, *, short: bool) -> int:
    matrix = [cell for report in reports for cell in report.matrix]
    failed = [report.name for report in reports if not report.ok]
    facts = {
        "failed": len(failed),
        "duplicates": duplicates(matrix),
        "matrix": [cell.model_dump(mode="json") for cell in matrix],
        "drills": [report.model_dump(mode="json", exclude={"matrix"}) for report in reports],
        "short": short,
        "state": str(folder),
    }
    if not output.as_json:
        output.rich(drill_story.summary(reports, folder))
    if failed:
        raise Problem(ExitCode.NO_ANSWER, "drill_failed", f"failed: {', '.join(failed)} (see {folder})", facts)
    if output.as_json:
        output.json(facts)
    return ExitCode.DONE
