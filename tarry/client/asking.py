"""Questions to workflows that outlive a worker: a query is lost when its worker dies, the next one answers."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, TypeVar

from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode
from tenacity import AsyncRetrying, retry_if_exception, stop_after_attempt, wait_fixed

T = TypeVar("T")

QUERY_TIMEOUT = timedelta(seconds=3)
QUERY_ATTEMPTS = 5


async def ask(client: Client, workflow_id: str, name: str, as_type: type[T], *arguments: Any) -> T:
    """The answer of a workflow to a query, also when a worker is lost meanwhile and another one is there."""
    attempts = AsyncRetrying(
        stop=stop_after_attempt(QUERY_ATTEMPTS),
        wait=wait_fixed(0.2),
        retry=retry_if_exception(_may_pass),
        reraise=True,
    )
    handle = client.get_workflow_handle(workflow_id)
    return await attempts(handle.query, name, args=arguments, result_type=as_type, rpc_timeout=QUERY_TIMEOUT)


def _may_pass(error: BaseException) -> bool:
    return isinstance(error, RPCError) and error.status != RPCStatusCode.NOT_FOUND
