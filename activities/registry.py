"""`tarry.sweep`: telling the calls that wait before their intent that other hooks count now (spec §5.3).

They are found by search attribute: those that were asked under the fingerprint that counts are not even listed.
"""

from __future__ import annotations

from temporalio import activity
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tarry.attributes import REGISTRY, STATE
from tarry.client.lists import QueueLists, literal
from tarry.core.gates import REASK
from tarry.core.registry import SWEEP, SweepInput, Swept

_DEAF = (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT)
"""What the server says of a call that is over, or that has taken all the signals that it may."""


class RegistryActivities:
    """Sweeps over the queue that it is run on."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn(name=SWEEP)
    async def sweep(self, input: SweepInput) -> Swept:
        """Tell each of them once; a repeat tells those that are still found."""
        asked_under = f"({REGISTRY.name} != {literal(input.fingerprint)} OR {REGISTRY.name} IS NULL)"
        found = 0
        lists = QueueLists(self._client, activity.info().task_queue)
        async for execution in lists.open(f"{STATE.name} = 'gated' AND {asked_under}"):
            activity.heartbeat()
            found += await self._tell(execution.execution.workflow_id, input.fingerprint)
        return Swept(found=found)

    async def _tell(self, task_id: str, fingerprint: str) -> bool:
        try:
            await self._client.get_workflow_handle(task_id).signal(REASK, fingerprint)
        except RPCError as error:
            if error.status not in _DEAF:
                raise
            return False
        return True
