"""Where the turns of a run begin in its history: the places to which a reset goes (spec §1.7)."""

from __future__ import annotations

import shlex

from temporalio.client import Client

from tarry.core.messages import Frozen
from tarry.core.protocol import MODEL_REQUEST, ModelRequestInput

SHOWN = 3
"""Turns that are told of, the newest."""


class Turn(Frozen):
    """A turn, and the event to which a reset goes for the model to be asked again for it."""

    turn: int
    event_id: int


async def newest_turns(client: Client, generation_id: str) -> list[Turn]:
    """The newest turns of a run, oldest first: of a turn that was asked for several times its first request.

    Raises:
        RPCError: there is no such run, or no server answers.
    """
    turns: dict[int, Turn] = {}
    async for event in client.get_workflow_handle(generation_id).fetch_history_events():
        asked = event.activity_task_scheduled_event_attributes
        if asked.activity_type.name != MODEL_REQUEST:
            continue
        [input] = await client.data_converter.decode(asked.input.payloads, [ModelRequestInput])
        found = Turn(turn=input.turn, event_id=asked.workflow_task_completed_event_id)
        turns.setdefault(found.turn, found)
    return list(turns.values())[-SHOWN:]


def reset_command(generation_id: str, turn: Turn) -> str:
    """The `temporal` command that has the model asked again for a turn."""
    where = ["--workflow-id", generation_id, "--event-id", str(turn.event_id)]
    return shlex.join(["temporal", "workflow", "reset", *where, "--reason", f"ask turn {turn.turn} again"])
