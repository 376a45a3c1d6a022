"""Taking back a submission that is still queued, with a worker up or not."""

from __future__ import annotations

from typing import Literal

from temporalio.client import Client, WorkflowUpdateFailedError, WorkflowUpdateRPCTimeoutOrCancelledError
from temporalio.service import RPCError, RPCStatusCode

from tarry.client.errors import UPDATE_TIMEOUT, NoSuchConversation, is_crowded, reaching_server, translate
from tarry.core.protocol import WITHDRAW, Withdrawal

Withdrawn = Withdrawal | Literal["accepted"]


@reaching_server()
async def withdraw(client: Client, conversation_id: str, request_id: str) -> Withdrawn:
    """What became of it; raises as `Conversation.withdraw`."""
    handle = client.get_workflow_handle(conversation_id)
    try:
        answer: Withdrawal = await handle.execute_update(WITHDRAW, request_id, rpc_timeout=UPDATE_TIMEOUT)
    except WorkflowUpdateRPCTimeoutOrCancelledError:
        await handle.signal(WITHDRAW, request_id)
        return "accepted"
    except WorkflowUpdateFailedError as error:
        if not is_crowded(error):
            raise translate(error.cause) or error from error
        await handle.signal(WITHDRAW, request_id)
        return "accepted"
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise NoSuchConversation(f"there is no conversation {conversation_id}") from error
        raise
    return answer
