"""What many tests of workflows start: a second server with limits that are soon reached, and the command in process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping

import pytest

from tarry import cli, embedded
from tarry.embedded import EmbeddedServer
from tests.support.command import Done, InProcess, Run

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
    """A real server in memory for the whole session: no pause between a workflow's runs, and lowered limits."""
    lowered = EmbeddedServer()
    # Only while it starts: another server that starts later in this process has the limits of every day.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(embedded, "DYNAMIC_CONFIG", (*embedded.DYNAMIC_CONFIG, *LOWERED))
        await lowered.start()
    async with lowered:
        yield lowered


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> InProcess:
    """`tarry` with an environment, in this process, since starting one is most of its time."""

    def run(*arguments: str) -> Done:
        code = cli.run(arguments)
        out, err = capfd.readouterr()
        return Done(code, out, err)

    def within(environment: Mapping[str, str]) -> Run:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        return run

    return within
