"""Commands as a person gives them in a shell, run to their end."""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tarry.embedded import program
from tarry.tether import tethered

PATIENCE = 60.0
"""Seconds a command may take."""

_RUN_TARRY = "import tarry.cli; tarry.cli.main()"


class CommandFailed(Exception):
    """A command ended with another exit code than it should, or not in 60 s. One line."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its output as JSON."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        """The lines of its output."""
        return self.out.splitlines()


def written(name: str, arguments: Sequence[str]) -> str:
    """A command as a shell takes it."""
    return shlex.join([name, *arguments])


async def run(name: str, arguments: Sequence[str], environment: Mapping[str, str], *, code: int | None = 0) -> Ran:
    """Run `temporal` or `tarry`, each the one of this installation, and return how it ended.

    Args:
        name: `temporal` or `tarry`.
        arguments: what follows it.
        environment: all of its environment.
        code: the exit code that it must end with; None lets it end with any.

    Raises:
        CommandFailed: it ended with another one, or not within 60 s.
        ServerError: there is no `temporal` program.
    """
    start = [program()] if name == "temporal" else [sys.executable, "-c", _RUN_TARRY]
    process = await asyncio.create_subprocess_exec(
        *tethered([*start, *arguments]), env=dict(environment), stdin=DEVNULL, stdout=PIPE, stderr=PIPE
    )
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await process.communicate()
    except TimeoutError:
        raise CommandFailed(f"`{written(name, arguments)}` did not end within {PATIENCE:g} s") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode is not None
    ran = Ran(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
    if code is not None and ran.code != code:
        said = " ".join((ran.err or ran.out).split())
        raise CommandFailed(f"`{written(name, arguments)}` ended with exit code {ran.code}, not {code}: {said}")
    return ran
