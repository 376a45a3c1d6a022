"""Questions to workflows that outlive a worker, are fair to a slow one, and do not believe one of the wrong build.

A query is lost when its worker dies, and the next one answers it; one that a loaded worker takes long for is not lost,
and asked again it only costs more. So each attempt may take as long as all before it together. A worker whose code does
not fit the history of a workflow fails its queries; a worker of another build answers them, also moments later, while
the server makes that build the current one.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import Client, WorkflowHandle, WorkflowQueryFailedError
from temporalio.common import QueryRejectCondition
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, stop_after_delay, stop_never, wait_exponential

QUERY_TIMEOUT = timedelta(seconds=2)
"""How long the first attempt waits for an answer."""
LONGEST_TIMEOUT = timedelta(seconds=30)
PATIENCE = timedelta(seconds=15)
"""After this nothing is asked again; the attempt that is under way has its own time."""

_FINAL = frozenset(
    {
        RPCStatusCode.NOT_FOUND,
        RPCStatusCode.INVALID_ARGUMENT,
        RPCStatusCode.PERMISSION_DENIED,
        RPCStatusCode.UNAUTHENTICATED,
        RPCStatusCode.UNIMPLEMENTED,
    }
)
"""Answers that asking again does not change. Any other may mean that no worker, or no server, is up."""

_MISFIT = "[TMPRL1100]"
"""Begins the SDK's message that the code of a worker does not fit a history."""

T = TypeVar("T")


class Attempts:
    """Attempts at one question, from now on."""

    def __init__(self) -> None:
        self._began = asyncio.get_running_loop().time()

    @property
    def timeout(self) -> timedelta:
        """For the attempt that begins now: `QUERY_TIMEOUT`, or as long as all before it took, up to 30 seconds."""
        spent = timedelta(seconds=asyncio.get_running_loop().time() - self._began)
        return min(max(QUERY_TIMEOUT, spent), LONGEST_TIMEOUT)


def may_pass(error: BaseException) -> bool:
    """Whether a question that ended with this is worth asking again."""
    return isinstance(error, RPCError) and error.status not in _FINAL


async def query(
    handle: WorkflowHandle[Any, Any],
    name: str,
    as_type: type[T],
    *arguments: Any,
    within: timedelta | None = None,
    reject: QueryRejectCondition | None = None,
) -> T:
    """One attempt at a query.

    Raises:
        RPCError: nothing has that id, or nobody answered; `UNAVAILABLE` is also what it is when a worker tried whose
            code does not fit the history.
        WorkflowQueryFailedError: the workflow refused.
        WorkflowQueryRejectedError: the workflow is in a state that `reject` names.
    """
    try:
        answer: T = await handle.query(
            name, args=arguments, result_type=as_type, rpc_timeout=within, reject_condition=reject
        )
    except WorkflowQueryFailedError as error:
        if _MISFIT not in error.message:
            raise
        told = f"a worker that does not fit the history of {handle.id} was asked: {error.message}"
        raise RPCError(told, RPCStatusCode.UNAVAILABLE, b"") from error
    return answer


async def ask(
    client: Client,
    workflow_id: str,
    name: str,
    as_type: type[T],
    *arguments: Any,
    patience: timedelta | None = PATIENCE,
) -> T:
    """The answer of a workflow to a query, also when a worker is lost meanwhile and another one is there.

    Args:
        patience: after this nothing is asked again; None: it is asked until somebody answers.

    Raises:
        RPCError: nothing has that id, or nobody answered.
        WorkflowQueryFailedError: the workflow refused.
    """
    handle = client.get_workflow_handle(workflow_id)
    attempts = Attempts()

    async def once() -> T:
        return await query(handle, name, as_type, *arguments, within=attempts.timeout)

    retrying = AsyncRetrying(
        stop=stop_never if patience is None else stop_after_delay(patience),
        wait=wait_exponential(multiplier=0.1, max=2),
        retry=retry_if_exception(may_pass),
        reraise=True,
    )
    return await retrying(once)
