# A tool owns a conversation with a subagent, gives it a task, and parks until that is answered.
# The subagent asks a person meanwhile: nothing runs then, in the whole tree, and no worker need be up.
#
#     .venv/bin/python examples/09_subagent_waits.py

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from tarry import SUBMISSION_SETTLED, App, Ask, Extension, Received, Signal, Sleep, ToolApi, WorkItem, tool
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, eventually, say


class Words(BaseModel):
    text: str


ANSWER = Signal("desk.answer", 1, Words, for_people=True)


async def stop_subagent(api: ToolApi) -> None:
    await api.abort(await api.own_conversation("subagent"))


@tool(replay="safe", cancel=stop_subagent)
async def subagent(task: str, api: ToolApi) -> str | Sleep:
    """Delegate a task, and get its answer back."""
    state = await api.read_signal(SUBMISSION_SETTLED, "answered")
    if isinstance(state, Received):
        settled = state.value
        return settled.answer_text or "" if settled.status == "done" else f"It ended: {settled.reason}"
    child = await api.own_conversation("subagent")  # the same key finds the same one, however often this runs
    await api.submit(child, task, request_id="task", notify="answered")
    return Sleep(signals=[SUBMISSION_SETTLED.key("answered")])


@tool(replay="safe")
async def ask_ana(question: str, api: ToolApi) -> str | Sleep:
    """Ask Ana, for as long as it takes."""
    state = await api.read_signal(ANSWER, "answer")
    if isinstance(state, Received):
        return state.value.text
    return Sleep(signals=[ANSWER.key("answer")], ask=Ask(text=question, for_whom="Ana"))


def begin(request: ModelRequest) -> Call:
    """The agent delegates; the subagent, which serves the same application, asks a person."""
    task = request.messages[-1].text
    return call("ask_ana", question=task) if task.endswith("?") else call("subagent", task="Which colour?")


def report(request: ModelRequest) -> Reply:
    return say(f"It shall be {request.messages[-1].text.removeprefix('It shall be ')}")


app = App(
    model=ScriptedModel([begin, report]),
    extensions=[Extension("desk", [subagent, ask_ana], signals=[ANSWER])],
)


async def main() -> None:
    async with Stage("examples.09_subagent_waits:app") as stage:
        worker = await stage.start_worker()
        root = stage.harness.conversation()
        submission = await root.submit("Paint the fence.")
        question = await asked(stage)
        print("asked by a subagent:", question.conversation_id != root.id)
        print("the question:", question.question)

        plan = await eventually(stage.harness.wake, lambda plan: not plan.active)
        print("work for workers:", plan.active, "- deadline:", plan.at)
        await worker.stop()
        print((await stage.harness.signal(question.id, ANSWER, "answer", Words(text="blue."))).answer)

        await stage.start_worker()
        print((await submission.wait()).answer_text)


async def asked(stage: Stage) -> WorkItem:
    """What asks a person, once something does."""

    async def find() -> list[WorkItem]:
        return [item async for item in stage.harness.work() if item.question]

    return (await eventually(find))[0]


if __name__ == "__main__":
    asyncio.run(main())
