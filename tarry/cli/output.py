"""Where a command's words go: its result to stdout, all else to stderr.

With `--json` stdout carries JSON alone. Progress appears on stderr and only when that is a terminal.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Annotated

import typer
from rich.console import Console, RenderableType

from tarry.cli.exits import Problem
from tarry.cli.render import plain

JSON_FLAG = "--json"

JsonOption = Annotated[bool, typer.Option(JSON_FLAG, help="Print one JSON object and nothing else to stdout.")]

_WIDE = 1_000_000
"""Columns of a place that is no terminal: nothing is wrapped or cut for a program that reads it, and no cell that is
very long takes the room of the others."""


class Output:
    """The two streams of one command."""

    def __init__(self, *, as_json: bool) -> None:
        self.as_json = as_json
        self.stderr = Console(stderr=True, highlight=False)
        self._stdout = Console(highlight=False, width=None if sys.stdout.isatty() else _WIDE)

    def json(self, facts: Mapping[str, object]) -> None:
        """Print one line of JSON, at once."""
        print(json.dumps(facts, ensure_ascii=False), flush=True)

    def text(self, text: str) -> None:
        """Print a model's or a tool's text: as it is into a pipe, without control characters on a terminal."""
        print(plain(text) if sys.stdout.isatty() else text, flush=True)

    def rich(self, what: RenderableType) -> None:
        """Print something drawn; its long lines are the terminal's to wrap."""
        self._stdout.print(what, soft_wrap=True)

    def table(self, table: RenderableType) -> None:
        """Print a table whose cells are never cut, since people copy ids from it."""
        Console(highlight=False, width=_WIDE).print(table)

    @property
    def progress(self) -> Console | None:
        """Where to show progress, None when nobody would see it."""
        return self.stderr if sys.stderr.isatty() else None

    def remark(self, text: str) -> None:
        """Tell a person at a terminal something beside the result."""
        if self.progress is not None:
            self.stderr.print(text, style="dim", markup=False, soft_wrap=True)

    def complaint(self, text: str) -> None:
        """Say on stderr, terminal or not, what went wrong."""
        print(f"tarry: {text}", file=sys.stderr, flush=True)

    def problem(self, problem: Problem) -> None:
        """Say why the command did not succeed, and make that its JSON object."""
        self.complaint(problem.text)
        if self.as_json:
            error = {"code": problem.kind, "message": problem.text}
            self.json({"error": error, "exit_code": problem.exit_code, **problem.facts})
