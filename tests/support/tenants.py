"""Tenants of one server: each a namespace with a store, keys and secrets of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from temporalio.client import Client

from tarry.app import App
from tarry.connect import converter_of
from tarry.embedded import EmbeddedServer
from tarry.namespaces import prepare
from tarry.settings import Settings
from tests.support.stage import Stage


async def tenant(server: EmbeddedServer, name: str, app: App, store: Path, **settings: Any) -> Stage:
    """A stage in a namespace of that name, on the task queue that every tenant has, with no worker yet."""
    chosen = Settings(task_queue="agents", store=str(store), **settings)
    client = await Client.connect(server.address, namespace=name, data_converter=converter_of(chosen))
    assert (await prepare(client)).is_ready
    return Stage(client, chosen, app)
