"""Documents edited by a tool and by a person, played to be kept."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from pydantic import BaseModel

from tarry import DocumentConflict, ToolApi
from tarry.app import App, Extension
from tarry.documents import Document
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.replay.studio import Studio
from tests.support.waiting import eventually


class Plan(BaseModel):
    steps: list[str] = []


PLAN = Document("test.plan", 1, Plan, history="rewindable")
ASIDE = Document("test.aside", 1, Plan)
SESSION = Document("test.session", 1, Plan, scope="session", fork="initial")


def adding(step: str) -> Callable[[Plan], Plan]:
    """An edit that adds a step."""
    return lambda plan: Plan(steps=[*plan.steps, step])


async def documents_edited_by_a_tool_and_a_person(studio: Studio) -> None:
    @tool
    async def plan(api: ToolApi) -> str:
        for _ in range(2):
            await api.commit(key="first", notes=["planned"], edits=[PLAN.edit(adding("a")), SESSION.edit(adding("b"))])
        await api.commit(key="large", edits=[ASIDE.key("large").put(Plan(steps=["x" * 5_000]), revision=0)])
        return str((await api.document(PLAN).get()).steps)

    model = ScriptedModel.for_each_input([call("plan"), say("done")])
    app = App(model=model, extensions=[Extension("test", [plan], documents=[PLAN, ASIDE, SESSION])])
    async with studio.conversation(app, turnover_events=20) as (_, conversation):
        await (await conversation.submit("go")).wait()
        for number in range(20):
            await conversation.document(PLAN).edit(adding(str(number)))
        try:
            await conversation.document(PLAN).put(Plan(), revision=1)
        except DocumentConflict:
            await conversation.document(ASIDE.key("large")).retire()
        await (await conversation.submit("and now?")).wait()
        await conversation.commit(inputs=["once more"], edits=[ASIDE.edit(adding("c"))])
        await eventually(conversation.view, lambda view: view.runs == 3 and view.open_generation is None)


DOCUMENTS: dict[str, Callable[[Studio], Awaitable[None]]] = {
    scenario.__name__: scenario for scenario in (documents_edited_by_a_tool_and_a_person,)
}
