"""Child processes of ours: servers, workers, and other programs that print a line when they are ready.

None outlives its owner, however the owner ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Self

from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from tarry.tether import tethered

READY_PATIENCE = 60.0
"""Seconds a child may take to be ready."""

STOP_PATIENCE = 5.0
"""Seconds a child that is told to stop may take before it is killed."""

_POLL = 0.02
_TAIL_LINES = 20


class ChildError(Exception):
    """A child cannot serve. The first line says which and why; the end of its log follows."""


class _NotReady(Exception):
    """Nothing that fits stands in the log yet."""


class Program:
    """A program as a child process that ends with this one, however this one ends. Once it has ended it may run again.

    Ctrl-C in a terminal does not reach it: ending it is its owner's. What it prints is added to a log.
    """

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, None while it does not run."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def wait(self) -> int:
        """Return its exit code when it has ended, whoever ended it; `-9` means that signal 9 did."""
        assert self._process is not None, "it was never started"
        return await self._process.wait()

    async def kill(self) -> None:
        """End it with SIGKILL, as a crash would. Nothing if it does not run."""
        if self._process is not None and self.pid is not None:
            self._process.kill()
            await self._process.wait()

    async def stop(self, patience: float = STOP_PATIENCE) -> None:
        """End it in order, within `patience` seconds, else by force. Nothing if it does not run."""
        if self._process is not None and self.pid is not None:
            self._process.terminate()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), patience)
        await self.kill()

    async def _spawn(
        self,
        command: Sequence[str],
        output: IO[bytes],
        *,
        environment: Mapping[str, str],
        kept_open: Sequence[int] = (),
    ) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *tethered(command),
            env=dict(environment),
            stdin=asyncio.subprocess.DEVNULL,
            # A file, not a pipe: a process that the child leaves behind would keep a pipe open.
            stdout=output,
            stderr=output,
            pass_fds=kept_open,
            start_new_session=True,
        )


class Child(Program):
    """A program that prints a line matching `ready` once it serves. As a context it is started and stopped."""

    def __init__(
        self, name: str, command: Sequence[str], *, ready: str, log: Path, environment: Mapping[str, str]
    ) -> None:
        super().__init__()
        self.name = name
        self.log = log
        self.ready_line = ""
        self._command = command
        self._ready = re.compile(ready, re.MULTILINE)
        self._environment = environment
        self._start = 0

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start it and return when it is ready; `ready_line` then holds what it said.

        Raises:
            ChildError: it ended instead, or was not ready within 60 s. No process is left behind.
        """
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as output:
            self._start = output.tell()
            await self._spawn(self._command, output, environment=self._environment)
        try:
            self.ready_line = await self._first_match(self._start)
        except BaseException:
            await self.kill()
            raise

    async def says(self, pattern: str, patience: float) -> str | None:
        """What matches in a line that it has printed since its start; None when it ends, or `patience` seconds pass."""
        wanted, printed = re.compile(pattern, re.MULTILINE), _Printed(self.log, self._start)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while True:
                    has_ended = self.pid is None
                    if (found := printed.search(wanted)) is not None:
                        return found
                    if has_ended:
                        return None
                    await asyncio.sleep(_POLL)
        return None

    async def _first_match(self, start: int) -> str:
        attempts = AsyncRetrying(
            retry=retry_if_exception_type(_NotReady),
            stop=stop_after_delay(READY_PATIENCE),
            wait=wait_fixed(_POLL),
            reraise=True,
        )
        try:
            return await attempts(self._match, _Printed(self.log, start), start)
        except _NotReady:
            raise self._failure(f"was not ready within {READY_PATIENCE:g} s", start) from None

    async def _match(self, printed: _Printed, start: int) -> str:
        has_ended = self.pid is None
        if (found := printed.search(self._ready)) is not None:
            return found
        if has_ended:
            raise self._failure(f"ended with exit code {await self.wait()}", start)
        raise _NotReady

    def _failure(self, what: str, start: int) -> ChildError:
        return ChildError(f"{self.name} {what}; {end_of(self.log, start)}")


class _Printed:
    """What a log holds from a byte on, each line of it looked at once."""

    def __init__(self, log: Path, start: int) -> None:
        self._log = log
        self._next = start

    def search(self, wanted: re.Pattern[str]) -> str | None:
        """The first match in what has come since the last search; none goes over more than a line."""
        with self._log.open("rb") as held:
            held.seek(self._next)
            new = held.read()
        found = wanted.search(new.decode(errors="replace"))
        self._next += new.rfind(b"\n") + 1  # the last line may go on
        return found.group() if found is not None else None


def end_of(log: Path, start: int = 0) -> str:
    """The last lines that a log holds from byte `start` on, below a line that names it."""
    lines = log.read_bytes()[start:].decode(errors="replace").splitlines()
    return "\n".join([f"the end of {log}:", *lines[-_TAIL_LINES:]])


def worker(app: str, *, log: Path, environment: Mapping[str, str]) -> Child:
    """A worker that serves `app`, given as module:attribute; not yet started."""
    command = [sys.executable, "-m", "workers.worker", "--app", app]
    return Child("the worker", command, ready="^ready$", log=log, environment=environment)


def gateway(app: str, *, log: Path, environment: Mapping[str, str]) -> Child:
    """A gateway for the webhooks of `app`, not yet started; when it is ready its `ready_line` is its URL."""
    command = [sys.executable, "-m", "workers.gateway", "--app", app]
    return Child("the gateway", command, ready=r"(?<=^ready )http://\S+$", log=log, environment=environment)


def environment_of(address: str) -> dict[str, str]:
    """This process's environment, but Temporal's clients find the local server at `address` and no other setting."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TEMPORAL_")}
    return kept | {"TEMPORAL_ADDRESS": address, "TEMPORAL_CONFIG_FILE": os.devnull}
