# Answers as data: an invoice is read into a pydantic model. An answer of another form is sent back once, with the exact
# problem; a second one ends the run, and says what was wrong.
#
#     .venv/bin/python examples/19_structured_output.py

from __future__ import annotations

import asyncio

from pydantic import BaseModel, Field

from tarry import App, Extension, tool
from tarry.testing import ScriptedModel, Stage, call, say


class Position(BaseModel):
    article: str
    pieces: int = Field(gt=0)


class Invoice(BaseModel):
    """What a supplier wants for what."""

    supplier: str
    positions: list[Position]
    total_cents: int


@tool(replay="safe")
def supplier_of(customer_number: str) -> str:
    """The name of a supplier."""
    return {"K-17": "Nordic Paper"}[customer_number]


# The model's part is scripted. A real one is given the schema by its provider, or told it in words.
app = App(
    model=ScriptedModel(
        [
            call("supplier_of", customer_number="K-17"),
            say(
                '{"supplier": "Nordic Paper", "positions": [{"article": "A4", "pieces": 0}], "total_cents": "12 euros"}'
            ),
            say('{"supplier": "Nordic Paper", "positions": [{"article": "A4", "pieces": 3}], "total_cents": 1200}'),
            say("I cannot read it."),
            say("Really not."),
        ]
    ),
    extensions=[Extension("suppliers", [supplier_of])],
)


async def main() -> None:
    async with Stage("examples.19_structured_output:app") as stage:
        await stage.start_worker()
        conversation = stage.harness.conversation()
        first = await (await conversation.submit("K-17: 3 packs of A4, 12 euros", output=Invoice)).wait()
        print("read:", first.output)

        second = await (await conversation.submit("a blurred fax", output=Invoice)).wait()
        print(f"not read: {second.reason}: {second.detail}")

        print("sent back with:")
        for entry in await conversation.transcript():
            if entry.kind == "user" and entry.message and entry.message.text.startswith("Your answer"):
                print(" ", entry.message.text.replace("\n", "\n  "))


if __name__ == "__main__":
    asyncio.run(main())
