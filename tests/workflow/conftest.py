"""A second server for tests of long lives: no pause between a workflow's runs, and limits that are soon reached."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tarry import embedded
from tarry.embedded import EmbeddedServer

EVENT_LIMIT = 600
"""Events of one run above which this server terminates the workflow; 51,200 by default."""

LOWERED = (
    # By default a run that lived for less than a second makes its successor wait.
    'history.workflowIdReuseMinimalInterval="0s"',
    f"limit.historyCount.error={EVENT_LIMIT}",
    f"limit.historyCount.warn={EVENT_LIMIT}",
)


@pytest.fixture(scope="session")
async def lowered_server() -> AsyncIterator[EmbeddedServer]:
    """A real server in memory with lowered limits, for the whole session."""
    lowered = EmbeddedServer()
    # Only while it starts: another server that starts later in this process has the limits of every day.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "DYNAMIC_CONFIG", (*embedded.DYNAMIC_CONFIG, *LOWERED))
        await lowered.start()
    async with lowered:
        yield lowered
