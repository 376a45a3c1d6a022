"""Walking the files of an environment in one fixed order, past what .gitignore leaves out (spec §14.8)."""

from __future__ import annotations

import json
import select
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tarry.coding import matcher
from tarry.environment import Environment, FileKind
from tarry.tether import tethered

SEARCH_SECONDS = 30.0
LOOK_SECONDS = 0.05
MAX_ENTRIES = 200_000
MAX_IGNORE_BYTES = 256 * 1024
MAX_SEARCHED_BYTES = 16 * 1024 * 1024
"""Larger files are not searched."""


class SearchError(Exception):
    """A pattern that is none, or a search that took too long."""


@dataclass(frozen=True)
class Wanted:
    """What a search looks for: lines that match `regex`, in files, or just paths, that match `glob` from `below` on."""

    regex: str | None = None
    glob: str | None = None
    below: str = "."
    ignore_case: bool = False
    literal: bool = False
    ignored: bool = False


@dataclass
class Search:
    """A search, with the process that matches for it. Use it with `with`."""

    env: Environment
    wanted: Wanted
    is_stopped: Callable[[], bool]
    left_out: int = 0
    not_searched: int = 0
    _entered: set[str] = field(default_factory=set)
    _ends: float = field(default_factory=lambda: time.monotonic() + SEARCH_SECONDS)

    def __enter__(self) -> Search:
        # A pattern that takes for ever holds the process until it is killed: without its owner nobody would. It has
        # this process's packages, wherever they are; -P keeps our own files from passing for modules of Python.
        command = tethered([sys.executable, "-P", matcher.__file__])
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()

    def begin(self) -> None:
        """Say what is searched for.

        Raises:
            SearchError: the pattern is none.
        """
        told = self._ask(vars(self.wanted))
        if "error" in told:
            raise SearchError(f"the pattern cannot be used: {told['error']}")

    def walk(self, directory: str) -> Iterator[tuple[str, FileKind, bool]]:
        """What is below a directory, by canonical path, in the order of names: its kind, and whether the glob matches.

        Each directory comes before what is in it.
        """
        waiting = [self.entries(directory)]
        seen = 0
        while waiting:
            entry = next(waiting[-1], None)
            if entry is None:
                waiting.pop()
                continue
            seen += 1
            if seen > MAX_ENTRIES:
                raise SearchError(f"there are more than {MAX_ENTRIES} entries; search in a directory further down")
            yield entry
            if entry[1] == "directory":
                waiting.append(self.entries(entry[0]))

    def lines(self, path: str, most: int) -> list[tuple[int, str]]:
        """The lines of a file that match, the first `most`; none of a binary one, nor of one that is `not_searched`."""
        try:
            with self.env.open(_from_root(self.env, path)) as file:
                data = file.read(MAX_SEARCHED_BYTES + 1)
        except OSError:
            data = None
        if data is None or len(data) > MAX_SEARCHED_BYTES:
            self.not_searched += 1
            return []
        told = self._ask({"search": path, "size": len(data), "most": most}, data)
        return [] if "binary" in told else [(number, text) for number, text in told["lines"]]

    def entries(self, directory: str) -> Iterator[tuple[str, FileKind, bool]]:
        """What is in a directory, as `walk` tells of it."""
        for above in _above(directory):
            if above not in self._entered:
                self._enter(above, [])
        try:
            entries = self.env.list(_from_root(self.env, directory))
        except OSError:  # gone, or unreadable
            return iter(())
        told = self._enter(directory, [entry for entry in entries if entry[0] != ".git"])
        self.left_out += told["ignored"]
        matched = set(told["matched"])
        prefix = "" if directory == "." else f"{directory}/"
        return iter([(f"{prefix}{name}", kind, name in matched) for name, kind in told["shown"]])

    def _enter(self, directory: str, entries: list[tuple[str, FileKind]]) -> dict[str, Any]:
        self._entered.add(directory)
        place = "" if directory == "." else directory
        return self._ask({"enter": place, "ignores": self._ignores(directory), "entries": entries})

    def _ignores(self, directory: str) -> str:
        try:
            with self.env.open(_from_root(self.env, f"{directory}/.gitignore")) as file:
                return file.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def _ask(self, request: dict[str, Any], body: bytes = b"") -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._look()
        self._process.stdin.write(json.dumps(request).encode() + b"\n" + body)
        self._process.stdin.flush()
        answers = select.poll()  # not select, which knows no more than 1,024 open files
        answers.register(self._process.stdout, select.POLLIN)
        while not answers.poll(LOOK_SECONDS * 1_000):
            self._look()
        line = self._process.stdout.readline()
        if not line:
            raise SearchError("the process that searches has ended; try again")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _look(self) -> None:
        if self.is_stopped() or time.monotonic() > self._ends:
            raise SearchError(f"it took longer than {SEARCH_SECONDS:g} s; use a simpler pattern or a smaller place")


def _above(directory: str) -> list[str]:
    """The directories that a directory is in, from the root on."""
    if directory == ".":
        return []
    parts = directory.split("/")
    return [".", *("/".join(parts[:count]) for count in range(1, len(parts)))]


def _from_root(env: Environment, path: str) -> str:
    return str(env.root / path)
