"""`tarry demo`: what survives, shown by real processes that are really killed.

A scenario checks what it saw against what is promised, and fails when they differ.
"""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from tarry.cli.demo_story import Story
from tarry.cli.exits import EXIT_CODES, ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.demo.policies import Facts, ScenarioError, broken_promises, run_policies
from tarry.embedded import EmbeddedServer, ServerOptions
from tarry.processes import ChildError

STATES = Path(".tarry/demo")
"""Each run keeps its state in a folder of its own below this one."""

KeepOption = Annotated[bool, typer.Option("--keep", help="Leave the server and its Web UI up until Ctrl-C.")]

app = typer.Typer(no_args_is_help=True)


@app.callback()
def demo() -> None:
    """See for yourself what survives a killed worker."""


@app.command(epilog=EXIT_CODES)
def policies(keep: KeepOption = False, as_json: JsonOption = False) -> None:
    """Kill a worker inside a tool, right after the tool's effect, under each of three declarations.

    It starts all it needs: a Temporal server with its state in a file and its Web UI, workers, an issue tracker. Only
    the model is scripted.
    """
    run_async(_policies(Output(as_json=as_json), is_kept=keep))


async def _policies(output: Output, *, is_kept: bool) -> None:
    folder = _new_folder()
    async with EmbeddedServer(ServerOptions(database=folder / "temporal.db", ui_port=0)) as server:
        facts = await _facts(server, folder, output)
        if broken := broken_promises(facts):
            raise Problem(ExitCode.NO_ANSWER, "broken_promise", "; ".join(broken), facts.model_dump(mode="json"))
        if output.as_json:
            output.json(facts.model_dump(mode="json"))
        if is_kept:
            await _keep(server, output)


async def _facts(server: EmbeddedServer, folder: Path, output: Output) -> Facts:
    try:
        if output.as_json:
            return await run_policies(server, folder, lambda policy, step: None)
        story = Story()
        with story.steps() as report:
            facts = await run_policies(server, folder, report)
    except (ChildError, ScenarioError) as error:
        raise Problem(ExitCode.NO_ANSWER, "demo_failed", str(error)) from error
    story.tell(facts, server)
    return facts


async def _keep(server: EmbeddedServer, output: Output) -> None:
    if not output.as_json:
        output.rich("The server is up until Ctrl-C.")
    # Here Ctrl-C is the ordinary end.
    with contextlib.suppress(asyncio.CancelledError):
        await server.wait()
        raise server.death()


def _new_folder() -> Path:
    try:
        STATES.mkdir(parents=True, exist_ok=True)
        return Path(tempfile.mkdtemp(prefix=f"{datetime.now(UTC):%Y%m%d-%H%M%S}-", dir=STATES))
    except OSError as error:
        reason = f"{STATES} cannot be written ({error.strerror}): run this in a folder of yours"
        raise Problem(ExitCode.PUT_RIGHT, "no_folder", reason) from error
