"""The commands under their names."""

from __future__ import annotations

from importlib.metadata import version
from typing import Annotated

import typer

from tarry.cli.agents import app as agents
from tarry.cli.ask import ask
from tarry.cli.chat import chat
from tarry.cli.codec import codec
from tarry.cli.compact import compact
from tarry.cli.configure import configure
from tarry.cli.demo import app as demo
from tarry.cli.deploy import app as deploy
from tarry.cli.dev import dev
from tarry.cli.documents import documents
from tarry.cli.drill import drill
from tarry.cli.exits import EXIT_CODES
from tarry.cli.explain import explain
from tarry.cli.forking import fork
from tarry.cli.gateway import gateway
from tarry.cli.keys import app as keys
from tarry.cli.link import link
from tarry.cli.namespace import app as namespace
from tarry.cli.reading import transcript
from tarry.cli.registry import app as registry
from tarry.cli.scale import scale
from tarry.cli.signals import receipt, signal
from tarry.cli.submissions import submit, wait
from tarry.cli.usage import usage
from tarry.cli.waking import wake
from tarry.cli.work import abort, ps, retry
from tarry.cli.worker import worker
from tarry.cli.writes import reset, withdraw, write

app = typer.Typer(
    help="Durable agents on Temporal.",
    epilog=EXIT_CODES,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

for _command in (
    dev,
    worker,
    scale,
    gateway,
    codec,
    ask,
    chat,
    submit,
    wait,
    transcript,
    configure,
    usage,
    documents,
    compact,
    fork,
    ps,
    explain,
    signal,
    receipt,
    link,
    retry,
    abort,
    write,
    reset,
    withdraw,
    wake,
    drill,
):
    app.command(epilog=EXIT_CODES)(_command)
app.add_typer(agents, name="agents")
app.add_typer(registry, name="registry")
app.add_typer(namespace, name="namespace")
app.add_typer(deploy, name="deploy")
app.add_typer(keys, name="keys")
app.add_typer(demo, name="demo")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"tarry {version('tarry')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def tarry(
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Durable agents on Temporal."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
