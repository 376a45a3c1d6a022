"""One tracker for all drills: a real process. Each conversation's tickets bear its id as their title."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tarry.demo.tracker import tracker
from tarry.embedded import EmbeddedServer
from tests.support.drills import Drill


@pytest.fixture(scope="session")
async def tracker_url(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The tracker's address."""
    folder = tmp_path_factory.mktemp("tracker")
    async with tracker(folder / "tickets.json", log=folder / "tracker.log", environment=os.environ) as running:
        yield running.ready_line


@pytest.fixture
def drill(server: EmbeddedServer, tracker_url: str, tmp_path: Path) -> Callable[..., Drill]:
    """Makes a drill on the session's server, with these settings."""

    def make(**settings: Any) -> Drill:
        return Drill(server, tmp_path, tracker_url, **settings)

    return make
