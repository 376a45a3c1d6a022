"""What the benches share: a server, a worker and the client as three processes, and reading their CPU time.

The server is the embedded one with the flags of `tarry.embedded`: without them latency is the number of hops times
50 ms and says nothing about our code. It keeps its state in memory, where a bench does not ask for a file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from temporalio.client import Client

from tarry import Harness
from tarry.connect import converter_of
from tarry.embedded import DYNAMIC_CONFIG, SQLITE_PRAGMAS, EmbeddedServer, ServerError, ServerOptions
from tarry.processes import Child, ChildError, environment_of, worker
from tarry.settings import Settings, SettingsError

SERVER_FLAGS = ("in memory", *DYNAMIC_CONFIG)
FILE_FLAGS = ("in a file", *SQLITE_PRAGMAS, *DYNAMIC_CONFIG)

TASK_QUEUE = "bench-tarry"

_SCHEDULED = 2

StartWorker = Callable[[Path, Mapping[str, str]], Child]
"""Makes a worker from the file of its log and its environment."""


@dataclass(frozen=True)
class Rig:
    """What a bench runs against."""

    client: Client
    harness: Harness
    server: EmbeddedServer
    worker: Child
    store: Path
    database: Path

    @property
    def server_pid(self) -> int:
        """The server's process."""
        return self.server.pid or 0

    @property
    def worker_pid(self) -> int:
        """The worker's process, 0 while it is stopped."""
        return self.worker.pid or 0


@contextlib.asynccontextmanager
async def rig(start_worker: StartWorker, *, in_file: bool = False) -> AsyncIterator[Rig]:
    """A fresh server and worker; nothing of them is left behind. The worker may be stopped and started meanwhile.

    `TARRY_…` variables count, for worker and client: so a bench shows what a setting costs.

    Raises:
        ServerError, ChildError, SettingsError: something cannot start.
    """
    with tempfile.TemporaryDirectory(prefix="tarry-bench-") as name:
        store, database = Path(name) / "store", Path(name) / "tarry.db"
        async with EmbeddedServer(ServerOptions(database if in_file else None)) as server:
            ours = {"TARRY_STORE": str(store), "TARRY_TASK_QUEUE": TASK_QUEUE}
            environment = environment_of(server.address) | ours
            async with start_worker(Path(name) / "worker.log", environment) as child:
                settings = Settings(store=str(store), task_queue=TASK_QUEUE)
                client = await Client.connect(server.address, data_converter=converter_of(settings))
                harness = Harness(client, settings)
                yield Rig(client, harness, server, child, store, database)


def agent(app: str) -> StartWorker:
    """Our own worker for an application."""
    return lambda log, environment: worker(app, log=log, environment=environment)


def flat(log: Path, environment: Mapping[str, str]) -> Child:
    """The bare workflow's worker."""
    command = [sys.executable, "-m", "bench.flat_worker"]
    return Child("the flat worker", command, ready="^ready$", log=log, environment=environment)


def cpu_seconds(pid: int) -> float:
    """User and system time that a process has used, all its threads together, to the nanosecond. Linux only."""
    # What clock_getcpuclockid(3) makes of a process id; Python has no name for it.
    return time.clock_gettime((~pid << 3) | _SCHEDULED)


def resident_bytes(pid: int) -> int:
    """The memory that a process holds now. Linux only."""
    (line,) = [line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def count(text: str, least: int = 1) -> int:
    """A whole number from `least` on, as an option's value."""
    number = int(text)
    if number < least:
        raise argparse.ArgumentTypeError(f"at least {least} is needed")
    return number


def main(bench: Coroutine[Any, Any, dict[str, Any]], show: Callable[[Console, dict[str, Any]], None] | None) -> None:
    """Run a bench and print its facts: by `show`, or as one JSON object. Exit code 2 when it cannot run."""
    try:
        facts = asyncio.run(bench)
    except (ServerError, ChildError, SettingsError) as error:
        print(error, file=sys.stderr)
        raise SystemExit(2) from None
    if show is None:
        print(json.dumps(facts, indent=2))
    else:
        show(Console(), facts)
