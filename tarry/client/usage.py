"""What conversations have spent, as Temporal's lists tell it: no worker needs to be up (spec §7.8)."""

from __future__ import annotations

from pydantic import Field
from temporalio.client import Client

from tarry.client.errors import reaching_server
from tarry.client.lists import literal
from tarry.codec import UnreadablePayload
from tarry.core.ledger import USAGE_MEMO, Ledger
from tarry.core.messages import Frozen
from tarry.core.protocol import CONVERSATION


class UsageReport(Frozen):
    """The ledgers of conversations, and all of them together.

    `unreadable` are the conversations whose ledgers this process cannot read, for want of a key: they are not in it.
    """

    conversations: dict[str, Ledger] = Field(default_factory=dict, description="by id, the newest first")
    unreadable: tuple[str, ...] = ()

    @property
    def total(self) -> Ledger:
        """By model and tool, of all of them."""
        return sum(self.conversations.values(), Ledger())


@reaching_server()
async def listed_usage(client: Client, task_queue: str, conversation_id: str | None = None) -> UsageReport:
    """What lists tell: of every conversation on this queue, or of one, as of the end of its newest run.

    Those that Temporal has forgotten are not in it, nor those whose first run is not over. One that this process cannot
    read hides no other: it is named apart.
    """
    query = f"WorkflowType = {literal(CONVERSATION)} AND TaskQueue = {literal(task_queue)}"
    query += ' AND ExecutionStatus != "ContinuedAsNew"'
    if conversation_id is not None:
        query += f" AND WorkflowId = {literal(conversation_id)}"
    found: dict[str, Ledger] = {}
    unreadable: dict[str, None] = {}
    async for execution in client.list_workflows(query, page_size=1_000):
        try:
            ledger: Ledger | None = await execution.memo_value(USAGE_MEMO, default=None, type_hint=Ledger)
        except UnreadablePayload:
            unreadable[execution.id] = None
            continue
        if ledger is not None:
            # One id may have been used anew; all of it was spent.
            found[execution.id] = found.get(execution.id, Ledger()) + ledger
    return UsageReport(conversations=found, unreadable=tuple(unreadable))
