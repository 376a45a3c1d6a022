"""The real `temporal` command, as a person or a script at a shell uses it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

from tenacity import AsyncRetrying, retry_if_result, stop_after_attempt, wait_fixed

from tarry.embedded import EmbeddedServer

BINARY = Path(sys.executable).with_name("temporal")


async def temporal(server: EmbeddedServer, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `temporal …` against `server`; its exit code is for the caller to judge."""
    command = [str(BINARY), *arguments, "--address", server.address]
    # In a thread: the loop of this process runs the workers.
    return await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, timeout=60)


async def succeeds(server: EmbeddedServer, *arguments: str) -> str:
    """Run `temporal …`, which must exit with 0, and return what it printed."""
    done = await temporal(server, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def signal(server: EmbeddedServer, workflow_id: str, name: str, *inputs: str) -> None:
    """Send a plain signal: one argument for each of `inputs`, JSON.

    In the moment in which a workflow continues as new the server takes none and says so; it is sent again then.
    """
    given = [part for input in inputs for part in ("--input", input)]
    attempts = AsyncRetrying(retry=retry_if_result(_was_closing), stop=stop_after_attempt(50), wait=wait_fixed(0.1))
    done: subprocess.CompletedProcess[str] = await attempts(
        temporal, server, "workflow", "signal", "--workflow-id", workflow_id, "--name", name, *given
    )
    assert done.returncode == 0, done.stderr


def _was_closing(done: subprocess.CompletedProcess[str]) -> bool:
    return done.returncode == 1 and "workflow is closing" in done.stderr
