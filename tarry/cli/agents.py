"""`tarry agents`: agents to delegate to. Each file of commands adds its own to this group."""

from __future__ import annotations

import typer

from tarry.cli.agents_files import definitions, init, trust, untrust
from tarry.cli.agents_reload import reload
from tarry.cli.agents_talking import interrupt, message
from tarry.cli.agents_tree import follow, tree
from tarry.cli.exits import EXIT_CODES

app = typer.Typer(help="Agents to delegate to.", no_args_is_help=True)


@app.callback()
def agents() -> None:
    """Agents to delegate to."""


for _command in (tree, follow, message, interrupt, reload, init, definitions, trust, untrust):
    app.command(epilog=EXIT_CODES)(_command)
