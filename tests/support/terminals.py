"""A person at a pseudo-terminal: sees what a command draws, types, and changes the window."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import re
import struct
import termios
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from typing import Any

from tests.support.command import BINARY, Command
from tests.support.waiting import PATIENCE

_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\][^\x07]*\x07|\x1b[=>]|\r")

_WHERE = "\x1b[6n"
"""What a program asks a terminal that is to say where its cursor stands."""


class Person:
    """Sits at a terminal on which one command runs. `seen` is all that was drawn, without colours and moves."""

    def __init__(self, master: int, slave: int) -> None:
        self._master = master
        self._slave = slave
        self._raw = ""
        self._mark = 0

    @property
    def seen(self) -> str:
        """Everything so far."""
        return _ESCAPES.sub("", self._raw)

    @property
    def modes(self) -> list[Any]:
        """How the terminal is set."""
        return termios.tcgetattr(self._slave)

    async def sees(self, text: str) -> None:
        """Return when `text` was drawn, after what was looked for last."""
        try:
            async with asyncio.timeout(PATIENCE):
                while (found := self.seen.find(text, self._mark)) < 0:
                    await self._look()
        except TimeoutError:
            raise TimeoutError(f"{text!r} was not drawn after {self.seen[self._mark :]!r}") from None
        self._mark = found + len(text)

    async def _look(self) -> None:
        piece = (await asyncio.to_thread(os.read, self._master, 65_536)).decode(errors="replace")
        self._raw += piece
        for _ in range(piece.count(_WHERE)):
            self.presses("\x1b[5;1R")

    def types(self, text: str) -> None:
        """Type and press Enter."""
        self.presses(text + "\r")

    def presses(self, keys: str) -> None:
        """Press keys."""
        os.write(self._master, keys.encode())

    def resizes(self, rows: int, columns: int) -> None:
        """Change the size of the window."""
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


CTRL_C, CTRL_D = "\x03", "\x04"


@contextlib.asynccontextmanager
async def at_terminal(command: Command, *arguments: str) -> AsyncIterator[tuple[Person, Process]]:
    """Start a command on a terminal of its own; what still runs at the end is killed."""
    master, slave = os.openpty()
    person = Person(master, slave)
    person.resizes(30, 100)
    process = await asyncio.create_subprocess_exec(
        BINARY,
        *arguments,
        cwd=command.folder,
        env={**command.environment, "TERM": "xterm-256color"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
        preexec_fn=lambda: _own(slave),
    )
    try:
        yield person, process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        os.close(master)
        os.close(slave)


def _own(slave: int) -> None:
    """The terminal is the process's own, so that it hears of its size."""
    os.setsid()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
