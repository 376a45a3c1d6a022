"""`tarry deploy`: builds of workers side by side, and which of them is given work (docs/deploying.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from tarry.cli.exits import EXIT_CODES, ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.client import Harness
from tarry.client.deployments import (
    Build,
    BuildStatus,
    DeployStatus,
    Routing,
    deploy_status,
    make_current,
    ramp,
    routing,
)

app = typer.Typer(help="Say which build of the workers is given work.", no_args_is_help=True)

DeploymentOption = Annotated[
    str | None, typer.Option("--deployment", help="Its name; TARRY_DEPLOYMENT, or the one on the queue, by default.")
]
BuildArgument = Annotated[str, typer.Argument(help="The build, as its workers' TARRY_BUILD has it.")]
IgnoreOption = Annotated[
    bool,
    typer.Option(
        "--ignore-missing-task-queues",
        help="Also when its workers leave out a queue in use, as of a worker's name that it gave up: "
        "what comes there goes to workers that are no build.",
    ),
]


@app.command(epilog=EXIT_CODES)
def status(deployment: DeploymentOption = None, as_json: JsonOption = False) -> int:
    """Print the builds of a deployment: who is given work, how many workers each has, and what it has in hand."""
    return run_async(_status(Output(as_json=as_json), deployment))


@app.command(epilog=EXIT_CODES)
def current(
    build: BuildArgument,
    deployment: DeploymentOption = None,
    ignore_missing: IgnoreOption = False,
    as_json: JsonOption = False,
) -> int:
    """Let all work go to a build, from the next step of each workflow on, what is parked included.

    A step back is the same, to the build before.
    """
    return run_async(_current(Output(as_json=as_json), build, deployment, ignore_missing=ignore_missing))


@app.command("ramp", epilog=EXIT_CODES)
def ramp_to(
    build: BuildArgument,
    percentage: Annotated[float, typer.Argument(min=0, max=100, help="Of the workflows; 0 ends its ramp.")],
    deployment: DeploymentOption = None,
    ignore_missing: IgnoreOption = False,
    as_json: JsonOption = False,
) -> int:
    """Let a part of the work go to a build that is not current yet."""
    return run_async(_ramp(Output(as_json=as_json), build, percentage, deployment, ignore_missing=ignore_missing))


async def _status(output: Output, deployment: str | None) -> int:
    harness = await Harness.connect()
    name = await _name_of(harness, deployment)
    found = await deploy_status(harness.client, harness.settings.task_queue, name)
    if output.as_json:
        output.json({"deployment": name, "task_queue": harness.settings.task_queue, **_facts(found)})
        return ExitCode.DONE
    if found.builds:
        output.table(_table(found.builds))
    output.text(_summary(harness.settings.task_queue, found))
    return ExitCode.DONE


async def _current(output: Output, name: str, deployment: str | None, *, ignore_missing: bool) -> int:
    harness = await Harness.connect()
    build = Build(await _name_of(harness, deployment), name)
    await make_current(harness.client, build, ignore_missing=ignore_missing)
    return _told(output, harness, build, 100)


async def _ramp(output: Output, name: str, percentage: float, deployment: str | None, *, ignore_missing: bool) -> int:
    harness = await Harness.connect()
    build = Build(await _name_of(harness, deployment), name)
    await ramp(harness.client, build, percentage, ignore_missing=ignore_missing)
    return _told(output, harness, build, percentage)


def _told(output: Output, harness: Harness, build: Build, percentage: float) -> int:
    queue = harness.settings.task_queue
    if output.as_json:
        facts = {"deployment": build.deployment, "build": build.name, "percentage": percentage, "task_queue": queue}
        output.json(facts)
    else:
        output.text(f"build {build.name} of {build.deployment} is given {percentage:g}% of the work")
    return ExitCode.DONE


async def _name_of(harness: Harness, given: str | None) -> str:
    """The deployment that is meant.

    Raises:
        Problem: nothing says which.
    """
    if name := given or harness.settings.deployment:
        return name
    queue = harness.settings.task_queue
    now = await routing(harness.client, queue)
    names = {build.deployment for build in (now.current, now.ramping, *now.workers) if build}
    if len(names) == 1:
        return names.pop()
    found = f"those on task queue {queue}: {', '.join(sorted(names))}" if names else f"task queue {queue} has none"
    text = f"which deployment? Give --deployment or set TARRY_DEPLOYMENT ({found})"
    raise Problem(ExitCode.PUT_RIGHT, "no_deployment", text)


def _facts(found: DeployStatus) -> dict[str, object]:
    now = found.routing
    return {
        "current": now.current.name if now.current else None,
        "ramping": now.ramping.name if now.ramping else None,
        "percentage": now.percentage,
        "builds": [
            {
                "build": one.build.name,
                "status": one.status,
                "workers": one.workers,
                "open": one.open,
                "parked": one.parked,
                "pinned": one.pinned,
            }
            for one in found.builds
        ],
        "plain_workers": now.workers.get(None, 0),
        "failing": found.failing,
    }


def _table(builds: Sequence[BuildStatus]) -> Table:
    table = Table("build", "status", "workers", "open", "parked", "pinned", box=None)
    for one in builds:
        counts = (str(number) for number in (one.workers, one.open, one.parked, one.pinned))
        table.add_row(one.build.name, one.status, *counts)
    return table


def _summary(queue: str, found: DeployStatus) -> str:
    now = found.routing
    lines = [_current_line(queue, now)]
    if now.ramping:
        lines.append(f"{now.percentage:g}% of the workflows go to build {now.ramping.name}")
    if plain := now.workers.get(None):
        lines.append(f"{plain} workers are no build" + (", and are given no work" if now.current else ""))
    if found.failing:
        lines.append(f"{found.failing} workflows fail step after step: see docs/deploying.md, When a replay fails")
    return "\n".join(lines)


def _current_line(queue: str, now: Routing) -> str:
    if now.current is None:
        return f"no build is current on task queue {queue}: workers that are one are given no work"
    return f"build {now.current.name} of {now.current.deployment} is current on task queue {queue}"
