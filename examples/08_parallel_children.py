# A tool starts nested calls, waits for none of them in memory, and parks until the first one ends.
# It is run again for each end: the same keys find the same calls, so nothing is asked twice.
#
#     .venv/bin/python examples/08_parallel_children.py

from __future__ import annotations

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from tarry import App, Extension, Received, Signal, Sleep, ToolApi, Wait, tool
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Stage, call, eventually, say


class Offer(BaseModel):
    euros: int


OFFER = Signal("market.offer", 1, Offer)
SHOPS = ["north", "south", "west"]


@tool(replay="safe")
async def ask_shop(shop: str, api: ToolApi) -> str | Sleep:
    """Ask a shop for an offer, and wait for a day."""
    match await api.read_signal(OFFER, "offer"):
        case Received(value=offer):
            return f"{shop} {offer.euros} euros"
        case _ if api.wake:
            return f"{shop} is silent"
    return Sleep(until=timedelta(days=1), signals=[OFFER.key("offer")])


@tool(replay="safe")
async def first_two(shops: list[str], api: ToolApi) -> str | Wait:
    """Ask the shops, and take the first two offers."""
    asked = [await api.execute_tool("ask_shop", {"shop": shop}, key=shop, wait=False) for shop in shops]
    ended: list[str] = [*(api.checkpoint or []), *(api.wake.ended if api.wake else ())]
    api.output(f"{len(ended)} offers")
    if len(ended) < 2:
        open_calls = [each.task_id for each in asked if each.task_id not in ended]
        return Wait(open_calls, "any", checkpoint=ended)
    offers = {each.task_id: each for each in asked}
    return ", ".join([(await offers[task_id].result()).text for task_id in ended[:2]])  # the third one is stopped


def report(request: ModelRequest) -> Reply:
    return say(request.messages[-1].text)


app = App(
    model=ScriptedModel([call("first_two", shops=SHOPS), report]),
    extensions=[Extension("market", [ask_shop, first_two], signals=[OFFER])],
)


async def main() -> None:
    async with Stage("examples.08_parallel_children:app") as stage:
        worker = await stage.start_worker()
        submission = await stage.harness.conversation().submit("Who sells a ladder?")
        parent = await waiting(stage)
        shops = {shop: f"{parent}/k.{shop}" for shop in SHOPS}
        print("waits for", sorted(child.rpartition(".")[2] for child in (await stage.harness.task(parent)).on))

        await stage.harness.signal(shops["south"], OFFER, "offer", Offer(euros=70))
        view = await eventually(lambda: stage.harness.task(parent), lambda view: len(view.on) == 2)
        print("waits for", sorted(child.rpartition(".")[2] for child in view.on))

        await worker.stop()  # nothing runs, so nothing is lost
        print((await stage.harness.signal(shops["north"], OFFER, "offer", Offer(euros=65))).answer, "without a worker")
        await stage.start_worker()
        print((await submission.wait()).answer_text)
        print("west:", (await stage.harness.signal(shops["west"], OFFER, "offer", Offer(euros=1))).answer)


async def waiting(stage: Stage) -> str:
    """The id of the call that waits for others, once all of those sleep."""

    async def find() -> list[str]:
        items = [item async for item in stage.harness.work()]
        asleep = [item for item in items if item.state == "sleeping"]
        return [item.id for item in items if item.state == "waiting" and len(asleep) == len(SHOPS)]

    return (await eventually(find))[0]


if __name__ == "__main__":
    asyncio.run(main())
