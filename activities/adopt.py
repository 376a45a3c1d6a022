"""Taking over a child that an earlier timeline of its parent started (spec §1.7)."""

from __future__ import annotations

import asyncio

from temporalio import activity
from temporalio.client import Client, WorkflowFailureError

from tarry.core.protocol import ADOPT, Adopted, AdoptInput

DIGEST_MEMO = "tarry.digest"


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
        beat = asyncio.create_task(_heartbeat())
        try:
            result = await handle.result()
        except asyncio.CancelledError:
            if activity.is_worker_shutdown():
                raise
            await handle.cancel()
            result = await handle.result()
        except WorkflowFailureError:
            result = None
        finally:
            beat.cancel()
        return Adopted(matches=matches, result=result if matches else None)


async def _heartbeat() -> None:
    timeout = activity.info().heartbeat_timeout
    while timeout is not None:
        activity.heartbeat()
        await asyncio.sleep(timeout.total_seconds() / 4)
