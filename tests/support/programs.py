"""Programs of ours as a person starts them: a process of its own, and what it printed."""

from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
TARRY = str(Path(sys.executable).with_name("tarry"))

PATIENCE = 240.0
"""Seconds after which a program hangs; a machine that is ten times as slow needs less."""

_OURS = ("TEMPORAL_", "TARRY_", "TRIAGE_", "OPENAI_")


@dataclass(frozen=True)
class Ended:
    """A program's end."""

    code: int
    stdout: str
    stderr: str


async def start(*command: str, cwd: Path, **environment: str) -> Process:
    """Start a program without any setting of ours but `environment`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    return await asyncio.create_subprocess_exec(
        *command, cwd=cwd, env=inherited | environment, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE, stderr=PIPE
    )


async def end_of(process: Process, patience: float = PATIENCE) -> Ended:
    """Wait for a program's end; what was read of its output before is not in it."""
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(), patience)
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode is not None
    return Ended(process.returncode, stdout.decode(), stderr.decode())


async def line_with(process: Process, text: str) -> str:
    """Read on until a line holds `text`."""
    assert process.stdout is not None
    async for line in process.stdout:
        if text in line.decode():
            return line.decode()
    raise AssertionError(f"it ended without saying {text!r}")


async def run(*command: str, cwd: Path, **environment: str) -> Ended:
    """Start a program and wait for its end."""
    return await end_of(await start(*command, cwd=cwd, **environment))


def living_in(folder: Path) -> list[str]:
    """The command lines of all processes whose working directory is `folder`: what a program left behind."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "cwd").resolve(strict=True) == folder.resolve():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue  # it ended meanwhile
    return found
