# What is said while a run is open: a steer joins it after the round of tools, a follow-up waits for its end, what still
# waits can be taken back, and a note is for people alone. Then a reset: the next run knows what it is handed, no more.
#
#     .venv/bin/python examples/13_steer_and_follow_up.py

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from tarry import App, Extension, Received, Signal, Sleep, ToolApi, tool
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Stage, call, calls, say


class Dry(BaseModel):
    after_hours: int


DRY = Signal("wall.dry", 1, Dry)


@tool(replay="safe")
async def paint(wall: str, api: ToolApi) -> str | Sleep:
    """Paint a wall, and wait until it is dry."""
    match await api.read_signal(DRY, wall):
        case Received(value=dry):
            return f"{wall} is dry after {dry.after_hours} hours"
        case _:
            return Sleep(signals=[DRY.key(wall)])


def work(request: ModelRequest) -> Reply:
    """Paint when told to; to all else say what people said so far."""
    if request.messages[-1].text == "Paint the house.":
        return calls(call("paint", wall="north"), text="I paint north.")
    return say("I heard: " + " / ".join(message.text for message in request.messages if message.role == "user"))


app = App(
    model=ScriptedModel([work] * 9),
    extensions=[Extension("painter", [paint], signals=[DRY])],
)


async def main() -> None:
    async with Stage("examples.13_steer_and_follow_up:app") as stage:
        await stage.start_worker()
        conversation = stage.harness.conversation()
        house = await conversation.submit("Paint the house.")
        task_id = await stage.parked(conversation.id)

        fence = await conversation.submit("And the fence?")
        green = await conversation.submit("In green, please.", when_busy="steer")
        cat = await conversation.submit("Paint the cat, too.")
        await conversation.write("It rains on the south side.")
        print("the cat:", await cat.abort())

        await stage.harness.signal(task_id, DRY, "north", Dry(after_hours=5))
        for name, submission in (("house", house), ("green", green), ("fence", fence), ("cat", cat)):
            settled = await submission.wait()
            print(f"{name}: {settled.status} {settled.answer_text or settled.reason}")

        await conversation.reset("North is green, the rest is white.")
        settled = await (await conversation.submit("What is left?")).wait()
        print(settled.answer_text)

        for entry in await conversation.transcript():
            if entry.kind != "system":
                print(f"  {entry.kind}: {entry.message.text if entry.message else entry.note}")


if __name__ == "__main__":
    asyncio.run(main())
