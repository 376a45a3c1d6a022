"""Which keys open work is encrypted with: asked before clear payloads are refused, or a key is dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.api.history.v1 import MarkerRecordedEventAttributes
from temporalio.client import Client

from tarry.codec.unreadable import ENCODING, key_id

_PATCH = "core_patch"
"""A marker of the SDK: it holds the id of one of our patches, and passes no codec."""

CLEAR = "clear"
"""In place of a key's id: not encrypted."""


@dataclass
class Census:
    """Payloads in histories by the id of their key, `clear` of those without one, and the workflows that were read."""

    payloads: Counter[str] = field(default_factory=Counter)
    workflows: dict[str, list[str]] = field(default_factory=dict)
    read: int = 0


async def take_census(client: Client, query: str) -> Census:
    """Read the histories of all runs that a list query finds. What the store keeps is not looked into."""
    census = Census()
    async for found in client.list_workflows(query):
        history = await client.get_workflow_handle(found.id, run_id=found.run_id).fetch_history()
        here = Counter(id for event in history.events for id in key_ids(event))
        census.read += 1
        census.payloads.update(here)
        for id in here:
            census.workflows.setdefault(id, []).append(found.id)
    return census


def key_ids(message: Message) -> Iterator[str]:
    """The id of the key of each payload in a message; search attributes and patches are not encrypted: none counts."""
    if isinstance(message, Payload):
        # A reference into the store is in the clear, and what it leads to is none of history's.
        if not message.external_payloads:
            yield key_id(message) if message.metadata.get("encoding") == ENCODING else CLEAR
        return
    if isinstance(message, MarkerRecordedEventAttributes) and message.marker_name == _PATCH:
        return
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None or descriptor.name in ("search_attributes", "header"):
            continue
        is_map = descriptor.message_type.GetOptions().map_entry
        values = [value] if isinstance(value, Message) else value.values() if is_map else value
        for one in values:
            if isinstance(one, Message):
                yield from key_ids(one)
