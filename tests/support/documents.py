"""A plan document that tests edit, and an application whose one tool does what a test says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from pydantic import BaseModel

from tarry import App, Conversation, Document, DurableTask, Extension, Harness, NoSuchTask, ToolApi
from tarry.core.waiting import TaskView
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.waiting import eventually


class Plan(BaseModel):
    steps: list[str] = []


PLAN = Document("app.plan", 1, Plan, history="rewindable")
NOTES = Document("app.notes", 1, Plan)
SHARED = Document("app.shared", 1, Plan, scope="session")


def adding(step: str) -> Callable[[Plan], None]:
    """An edit that adds a step."""

    def change(plan: Plan) -> None:
        plan.steps.append(step)

    return change


def echoing() -> DurableTask[str, str]:
    """A task that is over at once."""
    task: DurableTask[str, str] = DurableTask("app.echo", str, str)

    @task.phase
    def begin(text: str) -> str:
        return text

    return task


def app_doing(work: Callable[[ToolApi], Awaitable[str | None]], *documents: Document[Any], replay: bool = False) -> App:
    """Each input is answered by one call of the tool `work`, and then in text."""

    @tool(name="work", replay="safe" if replay else "unsafe")
    async def working(api: ToolApi) -> str:
        return await work(api) or "worked"

    model = ScriptedModel.for_each_input([call("work"), say("done")])
    extension = Extension("test", [working], tasks=[echoing()], documents=documents or (PLAN, NOTES, SHARED))
    return App(model=model, extensions=[extension])


class PlanInTwo(BaseModel):
    open: list[str] = []
    done: list[str] = []


def in_two(migrated: list[object]) -> Document[PlanInTwo]:
    """The plan as a later deploy declares it; what it migrates is told."""

    def migrate(value: dict[str, list[str]], version: int) -> dict[str, list[str]]:
        migrated.append(dict(value))
        return {"open": value.pop("steps"), "done": []}

    return Document("app.plan", 2, PlanInTwo, history="rewindable", migrate=migrate)


async def committed_task(harness: Harness, conversation: Conversation, key: str) -> TaskView:
    """The task that a commit of a conversation has started under a key, once the conversation's outbox has sent it."""
    task_id = f"{conversation.id}~{(await conversation.view()).nonce}/k.{key}"

    async def find() -> TaskView | None:
        try:
            return await harness.task(task_id)
        except NoSuchTask:
            return None

    found = await eventually(find)
    assert found is not None
    return found
