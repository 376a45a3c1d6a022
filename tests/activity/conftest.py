"""What the tests of activities share."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import Client

from tarry.connect import data_converter
from tarry.embedded import EmbeddedServer
from tests.support.tool_bench import Bench
from tests.support.tool_host import Host


@pytest.fixture
async def bench(server: EmbeddedServer, tmp_path: Path) -> Bench:
    client = await Client.connect(server.address, data_converter=data_converter(str(tmp_path)))
    return Bench(client, tmp_path)


@pytest.fixture
async def host(server: EmbeddedServer, tmp_path: Path) -> Host:
    return Host(await Client.connect(server.address, data_converter=data_converter(str(tmp_path))))
