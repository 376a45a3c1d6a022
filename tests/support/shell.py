"""The real `temporal` command, as a person or a script at a shell uses it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

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
    """Send a plain signal: one argument for each of `inputs`, JSON."""
    given = [part for input in inputs for part in ("--input", input)]
    await succeeds(server, "workflow", "signal", "--workflow-id", workflow_id, "--name", name, *given)
