"""What drills do with the events desk, and ask about it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from tarry.client import Submission
from tarry.demo.tracker import Tickets
from tarry.drills.kit.ground import Ground
from tarry.testing.waiting import eventually

DESK = "tarry.drills.desk.app:app"
ANSWER = "desk.answer"


async def begin(
    on: Ground, name: str, plan: str, *, model: str | None = None, hold_at: Sequence[str] = ()
) -> Submission:
    """Have a new conversation of that name follow a plan; its code holds once at each of these points."""
    conversation = on.harness.conversation(name)
    on.points.plan(name, hold_at)
    if model is not None:
        await conversation.configure(model=model)
    return await conversation.submit(plan)


async def parked(on: Ground, name: str, whom: str = "ana") -> str:
    """The id of the conversation's call that waits for that person, once it does. Needs no worker."""

    async def waiting() -> list[str]:
        items = [item async for item in on.harness.work(conversation_id=name)]
        return [item.id for item in items if f"{ANSWER}/{whom}" in item.waiting_for]

    return (await eventually(waiting))[0]


async def state(on: Ground, workflow_id: str) -> str:
    """What lists say of something that is not over; else nothing."""
    states = [item.state async for item in on.harness.work() if item.id == workflow_id]
    return states[0] if states else ""


def effects(on: Ground, name: str) -> list[str]:
    """What a conversation did outside, in order."""
    titles = [ticket.title.partition(": ") for ticket in Tickets(on.folder / "tickets.json").all()]
    return [effect for conversation, _, effect in titles if conversation == name]


def answer(whom: str, text: str) -> str:
    """The input of a plain signal with somebody's answer."""
    return json.dumps({"key": whom, "value": {"text": text}})


def run_of(task_id: str) -> str:
    """The run that a call belongs to."""
    return task_id.rpartition("/")[0]
