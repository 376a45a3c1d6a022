"""Fixtures for all tests. Tests that share the server keep apart by ids of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator

import hypothesis
import pytest

from tarry.embedded import EmbeddedServer

# Other tests run beside, so how long an example takes says nothing.
hypothesis.settings.register_profile("tarry", deadline=None)
hypothesis.settings.load_profile("tarry")


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[EmbeddedServer]:
    """One real server in memory for the whole session, started by the first test that asks for it."""
    async with EmbeddedServer() as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a report travel between processes: what was logged may hold half characters, since tests send them."""
    report = yield
    report.sections = [(name, text.encode("utf-8", "backslashreplace").decode()) for name, text in report.sections]
    return report
