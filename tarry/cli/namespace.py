"""`tarry namespace`: makes a namespace ready for workers, or says what is missing."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import typer

from tarry.cli.exits import EXIT_CODES, ExitCode
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.connect import connect
from tarry.namespaces import Prepared, prepare

app = typer.Typer(help="Make a namespace ready for workers.", no_args_is_help=True)

_WAIT = timedelta(seconds=30)

RetentionOption = Annotated[
    int | None,
    typer.Option(
        "--retention", min=1, max=3_650, help="Days for which closed workflows are kept; 30 of a new namespace."
    ),
]


@app.callback()
def namespace() -> None:
    """Make a namespace ready for workers."""


@app.command(epilog=EXIT_CODES)
def init(retention: RetentionOption = None, as_json: JsonOption = False) -> int:
    """Create the configured namespace where it is missing, and register its search attributes.

    Which one it is say Temporal's settings (TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE). Run again it changes nothing. Waits
    up to 30 s for a server that does not answer yet. Where we may not, as on Temporal Cloud, it prints the commands,
    with exit code 2.
    """
    return run_async(_prepare(Output(as_json=as_json), retention, change=True))


@app.command(epilog=EXIT_CODES)
def check(retention: RetentionOption = None, as_json: JsonOption = False) -> int:
    """Say what is missing, and change nothing; exit code 2 when something is."""
    return run_async(_prepare(Output(as_json=as_json), retention, change=False))


async def _prepare(output: Output, days: int | None, *, change: bool) -> int:
    client = await connect(wait=_WAIT, to_prepare=True)
    prepared = await prepare(client, None if days is None else timedelta(days=days), change=change)
    if output.as_json:
        output.json(_facts(prepared))
    else:
        for line in _lines(prepared):
            output.text(line)
    return ExitCode.DONE if prepared.is_ready else ExitCode.PUT_RIGHT


def _facts(prepared: Prepared) -> dict[str, object]:
    return {
        "namespace": prepared.namespace,
        "address": prepared.address,
        "ready": prepared.is_ready,
        "created": prepared.created,
        "added": list(prepared.added),
        "retention_days": None if prepared.retention is None else prepared.retention.days,
        "retention_changed": prepared.retention_changed,
        "left": [{"why": one.why, "commands": list(one.commands)} for one in prepared.left],
    }


def _lines(prepared: Prepared) -> list[str]:
    lines = []
    if prepared.created:
        lines.append(f"created namespace {prepared.namespace}")
    if prepared.added:
        lines.append(f"registered {', '.join(prepared.added)}")
    if prepared.retention_changed and prepared.retention is not None:
        lines.append(f"closed workflows are kept for {prepared.retention.days} days from now on")
    for one in prepared.left:
        lines += [f"{one.why}; run:", *(f"  {command}" for command in one.commands)]
    if prepared.is_ready:
        kept = f", closed workflows are kept for {prepared.retention.days} days" if prepared.retention else ""
        lines.append(f"namespace {prepared.namespace} at {prepared.address} is ready{kept}")
    return lines
