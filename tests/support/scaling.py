"""A supervisor as a process, and what it says."""

from __future__ import annotations

from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.support.command import Command, told
from tests.support.programs import living_in


@dataclass
class Told:
    """A supervisor that runs, and all that it has said so far."""

    process: Process
    said: list[dict[str, Any]] = field(default_factory=list)

    async def until(self, event: str, **facts: Any) -> dict[str, Any]:
        """The next line of this event with these facts."""
        while True:
            line = await told(self.process)
            self.said.append(line)
            if line["event"] == event and facts.items() <= line.items():
                return line

    @property
    def events(self) -> list[str]:
        """What it did with workers, in order."""
        return [line["event"] for line in self.said if "worker" in line]


@asynccontextmanager
async def scaled(tarry: Command, app: str, variables: Mapping[str, str], **chosen: str) -> AsyncIterator[Told]:
    """`tarry scale --json` that is ready; a quiet time of a second unless chosen otherwise."""
    settings = {"TARRY_SCALE_QUIET": "1", "TARRY_SHUTDOWN_GRACE": "2"} | chosen
    async with tarry.started("scale", "--app", app, "--json", variables={**variables, **settings}) as process:
        on = Told(process)
        await on.until("ready")
        yield on


def workers_in(tarry: Command) -> list[str]:
    """The worker processes that run in the command's folder."""
    return [command for command in living_in(tarry.folder) if "workers.worker" in command]
