"""Fixtures for all tests. Tests that share the server keep apart by ids of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tarry.embedded import EmbeddedServer


@pytest.fixture(scope="session")
async def server() -> AsyncIterator[EmbeddedServer]:
    """One real server in memory for the whole session, started by the first test that asks for it."""
    async with EmbeddedServer() as running:
        yield running
