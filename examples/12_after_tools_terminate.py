# After each round of tools a task waits for a person: "go on" steers the run, "stop" ends it without another request.
#
#     .venv/bin/python examples/12_after_tools_terminate.py

from __future__ import annotations

import asyncio
from typing import Any

from pydantic import BaseModel

from tarry import App, DurableTask, Extension, Go, Hooks, HookTask, Received, Signal, Sleep, ToolApi, Turn, tool
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, Stage, call, calls, eventually


class Said(BaseModel):
    text: str


SAID = Signal("captain.said", 1, Said)
check: DurableTask[str, dict[str, Any]] = DurableTask("captain.check", str, dict[str, Any])


@check.phase
def ask_captain(seen: str, api: ToolApi) -> Sleep:
    """Show the captain what was seen, and wait."""
    return Sleep(Go("obey"), signals=[SAID.key("said")], ask=seen)


@check.phase
async def obey(seen: str, api: ToolApi) -> dict[str, Any]:
    """End the run, or steer it: the words are placed before the next request."""
    state = await api.read_signal(SAID, "said")
    assert isinstance(state, Received)
    if state.value.text == "stop":
        return {"terminate": True}
    await api.submit(api.conversation_id, state.value.text, request_id=api.task_id, when_busy="steer")
    return {}


def after_tools(turn: Turn) -> list[HookTask]:
    return [HookTask(check, turn.results[0].text)]


@tool(replay="safe")
def sail(leg: int) -> str:
    """Sail one leg."""
    return f"leg {leg} sailed"


def next_leg(request: ModelRequest) -> Reply:
    leg = sum(message.role == "tool" for message in request.messages) + 1
    return calls(call("sail", leg=leg), text=f"Heard '{request.messages[-1].text}', sailing leg {leg}.")


app = App(
    model=ScriptedModel([next_leg] * 9),
    extensions=[Extension("ship", [sail], signals=[SAID], tasks=[check], hooks=Hooks(after_tools=after_tools))],
)


async def main() -> None:
    async with Stage("examples.12_after_tools_terminate:app") as stage:
        await stage.start_worker()
        conversation = stage.harness.conversation()
        submission = await conversation.submit("Set sail.")
        await say_to(stage, "leg 1 sailed", "go on")
        await say_to(stage, "leg 2 sailed", "stop")

        settled = await submission.wait()
        print(f"{settled.status}: {settled.answer_text}")
        for entry in await conversation.transcript():
            print(f"  {entry.kind}: {entry.message.text if entry.message else entry.note}")


async def say_to(stage: Stage, question: str, words: str) -> None:
    """Be the captain, once this is shown."""

    async def asked() -> list[str]:
        return [item.id async for item in stage.harness.work() if item.question == question]

    (task_id,) = await eventually(asked)
    await stage.harness.signal(task_id, SAID, "said", Said(text=words))


if __name__ == "__main__":
    asyncio.run(main())
