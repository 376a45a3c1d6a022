# One typed tool, one question: the answer, and the transcript that is kept of it.
#
#     .venv/bin/python examples/01_hello.py

from __future__ import annotations

import asyncio
from typing import Literal

from tarry import App, Extension, tool
from tarry.core.messages import AssistantMessage, Message
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Stage, call, say


@tool(replay="safe")
def delivery_days(country: Literal["DE", "FR", "US"], express: bool = False) -> int:
    """How many days a parcel takes."""
    return {"DE": 2, "FR": 3, "US": 9}[country] // (2 if express else 1)


# The model's part is scripted: it calls the tool, then answers with what the tool returned.
def answer(request: ModelRequest) -> Reply:
    return say(f"An express parcel to the US takes {request.messages[-1].text} days.")


app = App(
    model=ScriptedModel([call("delivery_days", country="US", express=True), answer]),
    extensions=[Extension("shipping", [delivery_days])],
)


def line(message: Message) -> str:
    calls = [f"calls {c.name} {c.arguments}" for c in message.calls] if isinstance(message, AssistantMessage) else []
    return f"{message.role}: " + " ".join([message.text, *calls]).strip()


async def main() -> None:
    async with Stage("examples.01_hello:app") as stage:
        await stage.start_worker()
        conversation = stage.harness.conversation()
        submission = await conversation.submit("How long does an express parcel to the US take?")
        settled = await submission.wait()
        print(settled.answer_text)

        print("\nThe transcript:")
        for entry in await conversation.transcript():
            if entry.message is not None:
                print(line(entry.message))


if __name__ == "__main__":
    asyncio.run(main())
