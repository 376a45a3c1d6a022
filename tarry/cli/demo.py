"""`tarry demo`: what survives and what can wait, shown by real processes that are really killed.

A scenario checks what it saw against what is promised, and fails when they differ.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from tarry.cli import demo_ci, demo_policies
from tarry.cli.demo_story import Report, Story
from tarry.cli.exits import EXIT_CODES, ExitCode, Problem
from tarry.cli.folders import new_folder
from tarry.cli.output import JsonOption, Output
from tarry.cli.running import run_async
from tarry.demo.ci.scenarios import broken_ci_promises, run_ci_scenes
from tarry.demo.policies import broken_promises, run_policies
from tarry.demo.scenario import ScenarioError
from tarry.embedded import EmbeddedServer, ServerOptions
from tarry.processes import ChildError

STATES = Path(".tarry/demo")
"""Each run keeps its state in a folder of its own below this one."""

Play = Callable[[EmbeddedServer, Path, Output], Awaitable[Mapping[str, object]]]
"""Plays a scenario in a folder and tells it, unless its facts are wanted as JSON; returns them."""

KeepOption = Annotated[bool, typer.Option("--keep", help="Leave the server and its Web UI up until Ctrl-C.")]

T = TypeVar("T")

app = typer.Typer()


@app.callback(invoke_without_command=True, epilog=EXIT_CODES)
def demo(context: typer.Context, keep: KeepOption = False, as_json: JsonOption = False) -> None:
    """See for yourself what survives a killed worker, and what waits while none is up. Without a name: everything."""
    if context.invoked_subcommand is None:
        run_async(_demo([_policies, _ci], Output(as_json=as_json), is_kept=keep))
    elif keep or as_json:
        raise typer.BadParameter(f"give options after the name: tarry demo {context.invoked_subcommand} …")


@app.command(epilog=EXIT_CODES)
def policies(keep: KeepOption = False, as_json: JsonOption = False) -> None:
    """Kill a worker inside a tool, right after the tool's effect, under each of three declarations.

    It starts all it needs: a Temporal server with its state in a file and its Web UI, workers, an issue tracker. Only
    the model is scripted.
    """
    run_async(_demo([_policies], Output(as_json=as_json), is_kept=keep))


@app.command(epilog=EXIT_CODES)
def ci(keep: KeepOption = False, as_json: JsonOption = False) -> None:
    """Let an agent wait for CI: with all workers off, through a killed worker, and until somebody stops it.

    It starts all it needs: a Temporal server with its state in a file and its Web UI, workers, a gateway for webhooks,
    a CI service that runs real tests. Only the model is scripted.
    """
    run_async(_demo([_ci], Output(as_json=as_json), is_kept=keep))


async def _demo(plays: Sequence[Play], output: Output, *, is_kept: bool) -> None:
    folder = new_folder(STATES)
    async with EmbeddedServer(ServerOptions(database=folder / "temporal.db", ui_port=0)) as server:
        facts: dict[str, object] = {}
        for number, play in enumerate(plays):
            if number and not output.as_json:
                output.rich("")
            facts |= await play(server, folder, output)
        if output.as_json:
            output.json(facts)
        if is_kept:
            await _keep(server, output)


async def _policies(server: EmbeddedServer, folder: Path, output: Output) -> Mapping[str, object]:
    facts = await _told(
        output,
        demo_policies.TITLE,
        lambda report: run_policies(server, folder, report),
        lambda story, facts: demo_policies.tell(story, facts, server),
    )
    return _kept(facts.model_dump(mode="json"), broken_promises(facts))


async def _ci(server: EmbeddedServer, folder: Path, output: Output) -> Mapping[str, object]:
    seen = await _told(
        output,
        demo_ci.TITLE,
        lambda report: run_ci_scenes(server, folder / "ci", report),
        lambda story, seen: demo_ci.tell(story, seen, server, folder),
    )
    return _kept({"ci": seen.facts.model_dump(mode="json")}, broken_ci_promises(seen))


async def _told(
    output: Output, title: str, play: Callable[[Report], Awaitable[T]], tell: Callable[[Story, T], None]
) -> T:
    """Play a scenario, telling its steps and then its end unless JSON is wanted; what it found."""
    try:
        if output.as_json:
            return await play(lambda scene, step: None)
        story = Story()
        with story.steps(title) as report:
            found = await play(report)
    except (ChildError, ScenarioError) as error:
        raise Problem(ExitCode.NO_ANSWER, "demo_failed", str(error)) from error
    tell(story, found)
    return found


def _kept(facts: Mapping[str, object], broken: Sequence[str]) -> Mapping[str, object]:
    if broken:
        raise Problem(ExitCode.NO_ANSWER, "broken_promise", "; ".join(broken), facts)
    return facts


async def _keep(server: EmbeddedServer, output: Output) -> None:
    if not output.as_json:
        output.rich("The server is up until Ctrl-C.")
    # Here Ctrl-C is the ordinary end.
    with contextlib.suppress(asyncio.CancelledError):
        await server.wait()
        raise server.death()
