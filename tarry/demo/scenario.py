"""What the scenarios of the demos share."""

from __future__ import annotations

from urllib.parse import quote

from temporalio.client import Client

from tarry.embedded import NAMESPACE, EmbeddedServer

PATIENCE = 60.0
"""Seconds a crash and an answer may take, each."""


class ScenarioError(Exception):
    """A scenario did not come to its end. One line."""


async def page_of(server: EmbeddedServer, client: Client, workflow_id: str) -> str:
    """The page of a workflow's current run in the server's Web UI."""
    run_id = (await client.get_workflow_handle(workflow_id).describe()).run_id
    place = f"namespaces/{NAMESPACE}/workflows/{quote(workflow_id, safe='')}/{run_id}/history"
    return f"{server.ui_url}/{place}"
