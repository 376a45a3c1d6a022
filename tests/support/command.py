"""The real `tarry` command in a process of its own, as a person or a program uses it."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from tests.support.waiting import PATIENCE

BINARY = Path(sys.executable).with_name("tarry")


@dataclass(frozen=True)
class Done:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """Its only output, one JSON object."""
        return json.loads(self.out)


Run = Callable[..., Done]
"""Runs a command, given its words."""

InProcess = Callable[[Mapping[str, str]], Run]
"""Gives a command its environment, without a process of its own."""


class Command:
    """Starts `tarry` in `folder`, with `environment`."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self.folder = folder
        self.environment = dict(environment)

    async def run(self, *arguments: str, **variables: str) -> Done:
        """Run it to its end."""
        async with asyncio.timeout(PATIENCE), self.started(*arguments, variables=variables) as process:
            out, err = await process.communicate()
        assert process.returncode is not None
        return Done(process.returncode, out.decode(), err.decode())

    @asynccontextmanager
    async def started(
        self,
        *arguments: str,
        stdout: int = PIPE,
        stderr: int = PIPE,
        variables: Mapping[str, str] = MappingProxyType({}),
    ) -> AsyncIterator[Process]:
        """Start it; its outputs are pipes, or the files given. What still runs at the end of the context is killed."""
        process = await asyncio.create_subprocess_exec(
            BINARY,
            *arguments,
            cwd=self.folder,
            env={**self.environment, **variables},
            stdin=DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


class Terminal:
    """A pseudo-terminal: what is written to `slave` is read here."""

    def __init__(self) -> None:
        self._master, self.slave = os.openpty()
        self.text = ""

    async def shows(self, text: str) -> None:
        """Return when it has shown `text`."""
        async with asyncio.timeout(PATIENCE):
            while text not in self.text:
                self.text += (await asyncio.to_thread(os.read, self._master, 65_536)).decode(errors="replace")

    def close(self) -> None:
        os.close(self._master)
        os.close(self.slave)


async def told(process: Process) -> dict[str, Any]:
    """The next JSON line that a command prints."""
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE):
        return dict(json.loads(await process.stdout.readline()))


async def interrupt(process: Process, number: signal.Signals = signal.SIGINT) -> Done:
    """Send a signal and wait for the end."""
    process.send_signal(number)
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate()
    assert process.returncode is not None
    return Done(process.returncode, out.decode(), (err or b"").decode())
