"""Taking over a child that an earlier timeline of its parent started (spec §1.7)."""

from __future__ import annotations

import asyncio

from temporalio import activity
from temporalio.client import Client, WorkflowFailureError

from activities.heartbeat import Heartbeat
from activities.runner import stop_reason
from tarry.core.keeping import ADOPT, DIGEST_MEMO, Adopted, AdoptInput
from tarry.core.protocol import Progress


class AdoptActivities:
    """Follows a child to its end by the history's long poll; runs again after a lost worker."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=ADOPT)
    async def adopt(self, input: AdoptInput) -> Adopted:
        """The child's result when its arguments are equal; else stop it, wait for its end and say so.

        A Stop of the parent stops the child.
        """
        handle = self._client.get_workflow_handle(input.workflow_id)
        matches = (await (await handle.describe()).memo_value(DIGEST_MEMO, "")) == input.digest
        if not matches:
            await handle.cancel()
        async with Heartbeat(Progress):
            try:
                result = await handle.result()
            except asyncio.CancelledError:
                if stop_reason() != "abort":  # the worker stops, or somebody at a shell paused or reset the activity
                    raise
                await handle.cancel()
                result = await handle.result()
            except WorkflowFailureError:
                result = None
        return Adopted(matches=matches, result=result if matches else None)
