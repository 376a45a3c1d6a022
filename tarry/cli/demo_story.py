"""A demo for a person: its steps as they happen, then what is left when it is over."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table
from rich.text import Text

from tarry.cli import render
from tarry.embedded import EmbeddedServer

Report = Callable[[str, str], None]
"""Told of each step of a scene when it has happened."""

_WIDE = 1_000


class Story:
    """Told on stdout. A terminal also sees that something is being waited for."""

    def __init__(self) -> None:
        self._console = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)

    @contextmanager
    def steps(self, title: str) -> Iterator[Report]:
        """Show each reported step, under the name of its scene, with the seconds since the start."""
        begun = time.monotonic()
        self.print(Text(f"{title}\n", "bold"))
        with self._console.status("running"):

            def report(scene: str, step: str) -> None:
                spent = f"{time.monotonic() - begun:5.1f} s"
                self.print(Text.assemble((spent, "dim"), f"  {scene:9}", render.plain(step)))

            yield report

    def heading(self, text: str) -> None:
        """Begin a part."""
        self.print(Text(f"\n{text}\n", "bold underline"))

    def print(self, what: Text | Table | str) -> None:
        """Print something; long lines are the terminal's to wrap."""
        self._console.print(what, markup=False, soft_wrap=not isinstance(what, Table))

    def look(self, page: str, state: Path, server: EmbeddedServer) -> None:
        """Tell where to look at it: a page in the Web UI, now and later, and the folder of what is left."""
        self.heading("Look at it")
        self.print(f"The run's page      {page}")
        self.print(f"…once this is over  {_server_command(state, server)}")
        self.print(f"What is left        {state}")

    def table(self, *columns: str, numbers: tuple[str, ...] = ()) -> Table:
        """An empty table in the demo's manner; the columns named in `numbers` stand at the right."""
        table = Table(box=None, pad_edge=False, header_style="dim")
        for column in columns:
            table.add_column(column, justify="right" if column in numbers else "left")
        return table


def _server_command(state: Path, server: EmbeddedServer) -> str:
    """What brings the server back with this state, its pages under the same addresses."""
    python = os.path.relpath(sys.executable) if Path(sys.executable).is_relative_to(Path.cwd()) else sys.executable
    port = urlsplit(server.ui_url or "").port
    database = state / "temporal.db"
    return shlex.join([python, "-m", "tarry.embedded", "--db", str(database), "--port", "0", "--ui-port", str(port)])
