"""A server whose clock jumps over waits: hours and days take no time."""

from __future__ import annotations

import re
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import IndexedValueType
from temporalio.api.operatorservice.v1 import AddSearchAttributesRequest
from temporalio.testing import WorkflowEnvironment

from tarry.app import App
from tarry.connect import data_converter
from tarry.core.attributes import ATTRIBUTES
from tarry.settings import Settings
from tests.support.servers import time_skipping_binary
from tests.support.stage import Stage


@dataclass
class Clock:
    """A server of its own for one test; `environment.sleep` moves its clock."""

    environment: WorkflowEnvironment
    store: Path

    def stage(self, app: App, max_cached_workflows: int = 0) -> Stage:
        """A stage on it, on which no worker runs yet.

        Workers keep no workflow by default: what waits for one that is gone would wait until this clock moves.
        """
        queue = f"test-{uuid.uuid4().hex[:8]}"
        settings = Settings(task_queue=queue, store=str(self.store), max_cached_workflows=max_cached_workflows)
        return Stage(self.environment.client, settings, app)


@pytest.fixture
async def clock(tmp_path: Path) -> AsyncIterator[Clock]:
    """The server, with our search attributes."""
    store = tmp_path / "store"
    environment = await WorkflowEnvironment.start_time_skipping(
        test_server_existing_path=time_skipping_binary(), data_converter=data_converter(str(store))
    )
    async with environment:
        types = {attribute.name: _indexed(attribute.type) for attribute in ATTRIBUTES}
        request = AddSearchAttributesRequest(namespace="default", search_attributes=types)
        await environment.client.operator_service.add_search_attributes(request)
        yield Clock(environment, store)


def _indexed(name: str) -> IndexedValueType.ValueType:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
    return IndexedValueType.Value(f"INDEXED_VALUE_TYPE_{words}")
