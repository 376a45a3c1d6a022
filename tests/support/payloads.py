"""Every payload that history holds of a conversation, to be looked at as another program would."""

from __future__ import annotations

from collections.abc import Iterator

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowHistory


async def histories_of(client: Client, conversation_id: str) -> list[WorkflowHistory]:
    """The history of every run of every workflow of a conversation."""
    found = [item async for item in client.list_workflows(f'TarryConversation = "{conversation_id}"')]
    return [await client.get_workflow_handle(item.id, run_id=item.run_id).fetch_history() for item in found]


def payloads_of(histories: list[WorkflowHistory]) -> list[Payload]:
    """Inputs, results, details, headers and all else that was encoded."""
    return [payload for history in histories for event in history.events for payload in _within(event)]


def _within(message: Message) -> Iterator[Payload]:
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            parts = list(value.values())
        elif isinstance(value, Message):
            parts = [value]
        else:
            parts = list(value)
        for part in parts:
            if isinstance(part, Message):
                yield from _within(part)
