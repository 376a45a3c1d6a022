"""`tarry registry`: which hooks count for calls that wait before they run."""

from __future__ import annotations

import typer

from tarry.app import App
from tarry.cli.exits import EXIT_CODES, ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.processes import AppOption
from tarry.cli.running import run_async
from tarry.client import Harness
from tarry.loading import load_app
from tarry.settings import load_settings

app = typer.Typer(help="Say which hooks count for calls that wait before they run.", no_args_is_help=True)


@app.callback()
def registry() -> None:
    """Say which hooks count for calls that wait before they run."""


@app.command(epilog=EXIT_CODES)
def publish(app: AppOption = None, as_json: JsonOption = False) -> int:
    """Let the hooks of an application count from now on, and have every waiting call ask them.

    Needs no worker. The last step of a deploy that adds or removes hooks, and of a step back. Publishing what counts
    already wakes nobody.
    """
    name = app or load_settings().app
    if name is None:
        raise Problem(ExitCode.PUT_RIGHT, "no_app", "no application: give --app module:attribute or set TARRY_APP")
    return run_async(_publish(Output(as_json=as_json), load_app(name)))


async def _publish(output: Output, app: App) -> int:
    harness = await Harness.connect()
    fingerprint = await harness.publish(app)
    if output.as_json:
        output.json({"fingerprint": fingerprint, "task_queue": harness.settings.task_queue})
    else:
        output.text(f"{fingerprint} counts on the task queue {harness.settings.task_queue}")
    return ExitCode.DONE
