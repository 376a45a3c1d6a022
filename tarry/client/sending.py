"""How things reach a conversation, new or old: by update, and by plain signal when no worker answers."""

from __future__ import annotations

import contextlib
import secrets
from dataclasses import dataclass
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio.client import (
    Client,
    WithStartWorkflowOperation,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import SearchAttributePair, TypedSearchAttributes, WorkflowIDConflictPolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError

from tarry import attributes
from tarry.client.errors import UPDATE_TIMEOUT, is_crowded, translate
from tarry.core.agent import Agent
from tarry.core.conversation import ConversationInput, ConversationState
from tarry.core.lineage import PARENT_MEMO
from tarry.core.protocol import CONVERSATION, DUPLICATE, OWNER_MEMO
from tarry.core.subagents.protocol import PATH_MEMO, TREE_MEMO

M = TypeVar("M", bound=BaseModel)


@dataclass(frozen=True)
class Road:
    """The road to one conversation. `agent`, `tree`: what it begins with when it is started on the way."""

    client: Client
    conversation_id: str
    task_queue: str
    agent: Agent
    tree: str = ""

    async def send(self, name: str, input: Any, as_type: type[M]) -> M | None:
        """The answer, or None when no worker gave one, or takes no more updates, and the server keeps the input."""
        with contextlib.suppress(WorkflowUpdateRPCTimeoutOrCancelledError):
            if (answer := await self._update(name, input, as_type)) is not None:
                return answer
        await self._start(start_signal=name, start_signal_args=[input])
        return None

    async def start(self, *, owner: str) -> None:
        """Start it without an input, owned by the task `owner`; one that is there already stays as it is."""
        await self._start(memo={OWNER_MEMO: owner})

    async def start_as(self, state: ConversationState, owner: str = "", path: str = "") -> bool:
        """Start it with `state`, owned by the task `owner` if given; False: its id is taken.

        `path`: of a subagent, in its tree.
        """
        birth = self._birth
        named = {PARENT_MEMO: state.parent, OWNER_MEMO: owner, PATH_MEMO: path, TREE_MEMO: self.tree}
        memo: dict[str, Any] = {name: value for name, value in named.items() if value}
        begun = birth["arg"].model_copy(update={"nonce": state.nonce, "carry": state})
        birth |= {"arg": begun, "id_conflict_policy": WorkflowIDConflictPolicy.FAIL, "memo": memo}
        try:
            await self.client.start_workflow(**birth)
        except WorkflowAlreadyStartedError:
            return False
        return True

    async def _update(self, name: str, input: Any, as_type: type[M]) -> M | None:
        start: WithStartWorkflowOperation[Any, Any] = WithStartWorkflowOperation(**self._birth)
        try:
            answer: M = await self.client.execute_update_with_start_workflow(
                name,
                input,
                start_workflow_operation=start,
                result_type=as_type,
                rpc_timeout=UPDATE_TIMEOUT,
            )
        except (RPCError, WorkflowUpdateRPCTimeoutOrCancelledError):
            # The operation holds what was met, and asyncio prints an error that nobody asked for. It also tells a
            # cancellation of ours, which must not count as a timeout, by raising it.
            with contextlib.suppress(RPCError):
                await start.workflow_handle()
            raise
        except WorkflowUpdateFailedError as error:
            if isinstance(error.cause, ApplicationError) and error.cause.type == DUPLICATE:
                return as_type.model_validate(error.cause.details[0])
            if is_crowded(error):
                return None
            raise translate(error.cause) or error from error
        return answer

    async def _start(self, **more: Any) -> None:
        await self.client.start_workflow(**self._birth, **more)

    @property
    def _birth(self) -> dict[str, Any]:
        nonce = secrets.token_hex(6)
        input = ConversationInput(
            nonce=nonce, notes_ends=True, by_boundary=True, folds=True, agent=self.agent, tree=self.tree
        )
        return {
            "workflow": CONVERSATION,
            "arg": input,
            "id": self.conversation_id,
            "task_queue": self.task_queue,
            "id_conflict_policy": WorkflowIDConflictPolicy.USE_EXISTING,
            "search_attributes": TypedSearchAttributes(
                [SearchAttributePair(attributes.CONVERSATION, self.conversation_id)]
            ),
        }
