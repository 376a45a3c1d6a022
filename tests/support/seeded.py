"""Play scenarios and print what their workflows commanded: `python -m tests.support.seeded SCENARIO …`.

Ids, chains and times are masked, so that two processes that did the same print the same.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHistory

from tarry.embedded import EmbeddedServer
from tests.replay.record import SCENARIOS
from tests.replay.studio import Studio

COMMANDED = {
    "ACTIVITY_TASK_SCHEDULED",
    "MARKER_RECORDED",
    "START_CHILD_WORKFLOW_EXECUTION_INITIATED",
    "TIMER_STARTED",
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
    "WORKFLOW_EXECUTION_COMPLETED",
    "WORKFLOW_EXECUTION_CONTINUED_AS_NEW",
    "WORKFLOW_EXECUTION_UPDATE_COMPLETED",
}
"""Events that are commands of workflow code; the others are what happened to it."""

_MASKED = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"  # ids
    r"|[0-9a-f]{12,}"  # nonces, digests, chains
    r"|(?<=test-)[0-9a-f]{8}"  # task queues
    r"|[\w-]{60,}=*"  # references
    r"|\d{4}-\d\d-\d\dT[0-9:.]+Z"
    r"|(?<=\"duration_ms\":)\d+"
)


def commands(histories: Iterable[WorkflowHistory]) -> list[list[Any]]:
    """The commands of every run of every workflow, in order, with what they carried."""
    return sorted([_masked(history.workflow_id), *_commands(history.events)] for history in histories)


def _commands(events: Iterable[HistoryEvent]) -> Iterable[str]:
    for event in events:
        kind = EventType.Name(event.event_type).removeprefix("EVENT_TYPE_")
        if kind in COMMANDED:
            attributes = getattr(event, event.WhichOneof("attributes") or "")
            yield _masked(f"{kind} {' '.join(_texts(attributes))}")


def _texts(message: Any) -> Iterable[str]:
    """Every payload of a message as text, and the names beside them."""
    if isinstance(message, Payload):
        yield message.data.decode(errors="replace")
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            if field.name in ("name", "workflow_id", "activity_id"):
                yield str(value)
        elif field.message_type.GetOptions().map_entry:
            for key in sorted(value):
                yield key
                yield from _texts(value[key])
        else:
            for item in value if field.is_repeated else [value]:
                yield from _texts(item)


def _masked(text: str) -> str:
    return _MASKED.sub("#", text)


async def play(names: list[str]) -> list[list[Any]]:
    """Play the scenarios on a server of their own."""
    found: list[list[Any]] = []
    async with EmbeddedServer() as server:
        for name in names:
            with tempfile.TemporaryDirectory(prefix="tarry-seeded-") as folder:
                studio = Studio(server, Path(folder))
                await SCENARIOS[name](studio)
                found.append([name, *commands(studio.histories)])
    return found


if __name__ == "__main__":
    print(json.dumps(asyncio.run(play(sys.argv[1:])), indent=1))
