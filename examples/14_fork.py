# Two answers from one point: an agent has looked for rooms, and two ways to choose are tried, each in a fork.
# A fork begins with the entries up to one of them and goes on by itself; its parent does not notice.
#
#     .venv/bin/python examples/14_fork.py

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from tarry import App, Conversation, Document, Extension, ToolApi, tool
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, say

ROOMS = {"attic": 40, "garden": 65, "terrace": 90}


class Trip(BaseModel):
    room: str = ""


TRIP = Document("trip.choice", 1, Trip, history="rewindable")


@tool(replay="safe")
def rooms(city: str) -> str:
    """The rooms that are free, with their prices."""
    return ", ".join(f"{name} {price}" for name, price in ROOMS.items())


@tool(replay="safe")
async def take(wish: str, api: ToolApi) -> str:
    """Choose a room."""
    room = min(ROOMS, key=lambda name: ROOMS[name]) if "cheap" in wish else "terrace"
    await api.commit(key="take", edits=[TRIP.edit(lambda trip: Trip(room=room))])
    return f"the {room} for {ROOMS[room]}"


def begin(request: ModelRequest) -> Call:
    wish = request.messages[-1].text
    return call("rooms", city="Rome") if "Rome" in wish else call("take", wish=wish)


def answer(request: ModelRequest) -> Reply:
    return say(f"I have {request.messages[-1].text}.")


app = App(
    model=ScriptedModel.for_each_input([begin, answer]),
    extensions=[Extension("trip", [rooms, take], documents=[TRIP])],
)


async def ask(conversation: Conversation, text: str) -> str:
    return (await (await conversation.submit(text)).wait()).answer_text or ""


async def chosen(conversation: Conversation) -> str:
    return (await conversation.document(TRIP).get()).room or "nothing"


async def main() -> None:
    async with Stage("examples.14_fork:app") as stage:
        await stage.start_worker()
        trip = stage.harness.conversation()
        print("at the point:", await ask(trip, "Which rooms are free in Rome?"))
        point = len(await trip.transcript()) - 1

        cheap, fine = await trip.fork(point), await trip.fork(point)
        print("one way:", await ask(cheap, "Something cheap, please."))
        print("the other:", await ask(fine, "Something with a view."))
        print("chosen:", ", ".join([await chosen(one) for one in (trip, cheap, fine)]))

        again = await fine.fork(conversation_id=f"{trip.id}-final")
        print("a fork of a fork:", await ask(again, "No, cheap after all."))
        print("by then, and now:", await chosen(fine), "and", await chosen(again))
        for one in (trip, cheap, fine, again):
            parent = (await one.view()).parent
            said = [entry.index for entry in await one.transcript() if entry.kind in ("user", "assistant")]
            shared = [index for index in said if parent is not None and index <= parent.at]
            print(f"  {len(shared)} messages shared, {len(said) - len(shared)} of its own")


if __name__ == "__main__":
    asyncio.run(main())
