"""Lists of the server are behind what happens: after a reset they may not tell yet of what came just before it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from temporalio.client import Client

LISTED = 5.0
"""Seconds after which the server's lists surely hold everything that began before."""


async def surely_listed(client: Client, workflow_id: str) -> None:
    """Wait until lists hold all that was there when this timeline of the workflow began, which was its last reset.

    Raises:
        RPCError: the server does not answer.
    """
    began = (await client.get_workflow_handle(workflow_id).describe()).start_time
    await asyncio.sleep(min(LISTED, max(0.0, LISTED - (datetime.now(UTC) - began).total_seconds())))
