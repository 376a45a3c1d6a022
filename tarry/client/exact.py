"""The whole arguments of a parked call, known to be those that it waits with; no worker is needed (spec §23.2).

The note that lists show holds an excerpt, and the digest of them all. What a call began with, and what each pass of its
hooks left of that, stands in its history; a worker says what it is now. Whatever has the digest is it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from temporalio.api.common.v1 import Payloads
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client
from temporalio.service import RPCError

from tarry.client.errors import NoSuchTask
from tarry.client.tasks import RPC_TIMEOUT, view_at_once
from tarry.core.gates import arguments_digest
from tarry.core.protocol import TOOL_CALL

_MOST_EVENTS = 400
"""A run that is longer has turned over: its beginning says all."""


async def exact_arguments(client: Client, task_id: str, tool: str, digest: str) -> dict[str, Any] | None:
    """The arguments with that digest; None when neither the history nor a worker tells of them."""
    async for found in _known(client, task_id):
        if isinstance(found, dict) and arguments_digest(tool, found) == digest:
            return found
    return None


async def _known(client: Client, task_id: str) -> AsyncIterator[Any]:
    """All that may be its arguments."""
    try:
        async for found in _in_history(client, task_id):
            yield found
    # What cannot be read here says nothing; a worker may.
    except (RPCError, ValueError, RuntimeError):
        pass
    try:
        view = await view_at_once(client, task_id)
    except (RPCError, NoSuchTask):
        return
    if view is not None:
        yield view.arguments


async def _in_history(client: Client, task_id: str) -> AsyncIterator[Any]:
    seen = 0
    async for event in client.get_workflow_handle(task_id).fetch_history_events(rpc_timeout=RPC_TIMEOUT):
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                yield await _begun_with(client, event)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                answer = await _decoded(client, event.activity_task_completed_event_attributes.result)
                yield _at(answer, "arguments")
                yield _at(answer, "found", "arguments")
        seen += 1
        if seen >= _MOST_EVENTS:
            return


async def _begun_with(client: Client, event: HistoryEvent) -> Any:
    started = event.workflow_execution_started_event_attributes
    input = await _decoded(client, started.input)
    begun = _at(input, "call", "arguments")
    if started.workflow_type.name != TOOL_CALL:
        return {"input": _at(begun, "input")}
    return _at(input, "carry", "state", "arguments") or begun


async def _decoded(client: Client, payloads: Payloads) -> Any:
    found = await client.data_converter.decode(payloads.payloads)
    return found[0] if found else None


def _at(data: Any, *names: str) -> Any:
    """What lies there in JSON data, or None."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return data
