# A plan that an agent and a person edit: a document of the conversation, typed, with a past that can be read.
# An edit is part of a commit, beside a note here; who comes second edits what the first one has made of it.
#
#     .venv/bin/python examples/16_documents.py

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from tarry import App, Document, DocumentConflict, Extension, ToolApi, tool
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, Stage, call, say


class Plan(BaseModel):
    todo: list[str] = []
    done: list[str] = []


PLAN = Document("move.plan", 1, Plan, history="rewindable")


@tool(replay="safe")
async def draft(steps: list[str], api: ToolApi) -> str:
    """Write the plan."""
    await api.commit(key="draft", notes=["The plan is drafted."], edits=[PLAN.edit(lambda plan: Plan(todo=steps))])
    return f"{len(steps)} steps"


@tool(replay="safe")
async def next_step(api: ToolApi) -> str:
    """Do the first step that is open. Run again after a crash it does no other: the key was used."""

    def finish(plan: Plan) -> None:
        plan.done.append(plan.todo.pop(0))

    await api.commit(key="finish", edits=[PLAN.edit(finish)])
    return (await api.document(PLAN).get()).done[-1]


def report(request: ModelRequest) -> Reply:
    return say(f"Done: {request.messages[-1].text}.")


def begin(request: ModelRequest) -> Call:
    steps = ["sell the sofa", "pack", "drive"]
    return call("draft", steps=steps) if request.messages[-1].text == "Plan the move." else call("next_step")


app = App(
    model=ScriptedModel.for_each_input([begin, report]),
    extensions=[Extension("move", [draft, next_step], documents=[PLAN])],
)


async def main() -> None:
    async with Stage("examples.16_documents:app") as stage:
        await stage.start_worker()
        conversation = stage.harness.conversation()
        plan = conversation.document(PLAN)
        await (await conversation.submit("Plan the move.")).wait()
        print("the agent's plan:", ", ".join((await plan.get()).todo))

        seen = await plan.find()
        await plan.edit(lambda plan: Plan(todo=["feed the cat", *plan.todo[1:]]), key="ana-1")
        print("edited again under its key:", await plan.edit(lambda plan: Plan(), key="ana-1"))
        try:
            await plan.put(Plan(), revision=seen.revision)
        except DocumentConflict as conflict:
            print("too late:", conflict)

        print((await (await conversation.submit("Go on.")).wait()).answer_text)
        print("open now:", ", ".join((await plan.get()).todo))
        for entry in await conversation.transcript():
            past = await plan.snapshot_as_of(entry.index)
            print(f"  {entry.index} {entry.kind}: todo {past.todo}, done {past.done}")


if __name__ == "__main__":
    asyncio.run(main())
