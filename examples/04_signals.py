# Values from outside, delivered to a tool call that waits: every answer a sender can get.
# The first value of a key stays; one that comes early is kept, and the sleep on it ends at once.
#
#     .venv/bin/python examples/04_signals.py

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from tarry import App, Extension, Received, Signal, Sleep, ToolApi, tool
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Stage, call, say


class Parcel(BaseModel):
    city: str


Arrived = Signal("shop.arrived", 1, Parcel)


@tool(replay="safe")
async def follow_parcel(api: ToolApi) -> str | Sleep:
    """Follow a parcel to the depot and to the door."""
    if api.wake is None:
        return Sleep(signals=[Arrived.key("depot")])  # parked: no code of this runs until the value comes
    if api.wake.key == "depot":
        return Sleep(signals=[Arrived.key("door")])  # a second wait has a key of its own
    depot, door = await api.read_signal(Arrived, "depot"), await api.read_signal(Arrived, "door")
    assert isinstance(depot, Received)
    assert isinstance(door, Received)
    return f"It came through {depot.value.city} to {door.value.city}."


def report(request: ModelRequest) -> Reply:
    return say(request.messages[-1].text)


app = App(
    model=ScriptedModel([call("follow_parcel"), report]),
    extensions=[Extension("shop", [follow_parcel], signals=[Arrived])],
)


async def main() -> None:
    async with Stage("examples.04_signals:app") as stage:
        harness, conversation = stage.harness, stage.harness.conversation()
        worker = await stage.start_worker()
        submission = await conversation.submit("Where is my parcel?")
        task_id = await stage.parked(conversation.id)  # it sleeps on "depot"

        print((await harness.signal("no-such-task", Arrived, "door", Parcel(city="Oslo"))).answer)
        wrong = await harness.signal(task_id, "shop.arrived", "door", {"town": "Oslo"})  # by name: any JSON
        print(f"{wrong.answer}: {wrong.reason}")
        print((await harness.signal(task_id, Arrived, "door", Parcel(city="Oslo"))).answer, "(early: it is kept)")
        print((await harness.signal(task_id, Arrived, "door", Parcel(city="Rome"))).answer, "(Oslo stays)")

        await worker.stop()
        sent = await harness.signal(task_id, Arrived, "depot", Parcel(city="Bergen"))
        print(sent.answer, "(no worker is up: the server keeps it)")

        await stage.start_worker()  # wakes for "depot", sleeps on "door" and wakes at once: that value is here
        print((await submission.wait()).answer_text)
        receipt = await harness.receipt(task_id, sent.delivery_id)
        print("receipt of what was accepted:", receipt and receipt.answer)
        print((await harness.signal(task_id, Arrived, "door", Parcel(city="Rome"))).answer, "(it is over)")


if __name__ == "__main__":
    asyncio.run(main())
