"""Ending calls that nobody waits for any more: in good order, and by force when that takes too long."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Any

from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.service import RPCError

DRAIN = 30.0
"""Seconds that calls may take to stop."""


async def stop_calls(calls: Sequence[WorkflowHandle[Any, Any]], why: str) -> None:
    """Stop them, and wait for their ends; what has none in `DRAIN` seconds is terminated for the reason `why`."""
    for call in calls:
        with contextlib.suppress(RPCError):  # it has ended meanwhile
            await call.cancel()
    if not calls:
        return
    _, acting = await asyncio.wait([asyncio.create_task(_ended(call)) for call in calls], timeout=DRAIN)
    for task in acting:
        task.cancel()
    for call in calls if acting else ():
        with contextlib.suppress(RPCError):
            await call.terminate(reason=why)


async def _ended(call: WorkflowHandle[Any, Any]) -> None:
    with contextlib.suppress(WorkflowFailureError):
        await call.result()
