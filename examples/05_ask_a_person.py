# A tool asks a person and parks: four hours cost no process. Answered once, left to expire once.
# `wake` says meanwhile whether the workers may be switched off, and when they must be back.
#
#     .venv/bin/python examples/05_ask_a_person.py

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

from pydantic import BaseModel

from tarry import App, Ask, Expired, Extension, Received, Signal, Sleep, ToolApi, tool
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, eventually, say


class Words(BaseModel):
    text: str


Answer = Signal("desk.answer", 1, Words, for_people=True)


@tool(replay="safe")
async def ask_ana(question: str, seconds: int, api: ToolApi) -> str | Sleep:
    """Ask Ana, and wait for so many seconds."""
    match await api.read_signal(Answer, "answer"):
        case Received(value=words):
            return f"Ana says: {words.text}"
        case Expired():
            return "Ana did not answer in time."
    ask = Ask(text=question, for_whom="Ana")  # shown by `tarry ps`, `tarry explain` and the Web UI
    return Sleep(signals=[Answer.key("answer")], until=timedelta(seconds=seconds), ask=ask)


def ask(request: ModelRequest) -> Call:
    return call("ask_ana", question="Which colour?", seconds=int(request.messages[-1].text))


def report(request: ModelRequest) -> Reply:
    return say(request.messages[-1].text)


app = App(
    model=ScriptedModel([ask, report]),
    extensions=[Extension("desk", [ask_ana], signals=[Answer])],
)


async def main() -> None:
    async with Stage("examples.05_ask_a_person:app") as stage:
        await stage.start_worker()
        await answered(stage, "14400")
        await expired(stage, "2")


async def answered(stage: Stage, seconds: str) -> None:
    conversation = stage.harness.conversation()
    submission = await conversation.submit(seconds)
    task_id = await stage.parked(conversation.id)

    view = await stage.harness.task(task_id)
    assert view.ask is not None
    print(f"{view.ask.for_whom} is asked: {view.ask.text}")
    plan = await eventually(stage.harness.wake, lambda plan: not plan.active)
    assert plan.at is not None
    print(f"no work for workers now; some in {(plan.at - datetime.now(UTC)) / timedelta(hours=1):.1f} h at the latest")

    await stage.harness.signal(task_id, Answer, "answer", Words(text="Blue."))
    print((await submission.wait()).answer_text)


async def expired(stage: Stage, seconds: str) -> None:
    submission = await stage.harness.conversation().submit(seconds)
    print((await submission.wait()).answer_text)


if __name__ == "__main__":
    asyncio.run(main())
