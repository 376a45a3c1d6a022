"""The application of a drill: a tool whose worker kills itself, in an edit or right after its commit."""

from __future__ import annotations

import os
import signal

from tarry import App, Extension, Start, ToolApi
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, call, say
from tarry.tools import tool
from tests.support.documents import PLAN, Plan, echoing

NAME = "tests.support.documents_app:app"


@tool(replay="safe")
async def plan(place: str, api: ToolApi) -> str:
    """Plan, and die in the first run."""
    echo = echoing()

    def change(plan: Plan) -> None:
        if place == "in the edit" and api.attempt == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        plan.steps.append(f"by run {api.attempt}")

    taken = await api.commit(
        key="plan",
        notes=["planned"],
        inputs=["thanks"],
        tasks=[Start(echo, "hi", "echo")],
        edits=[PLAN.edit(change)],
    )
    if place == "after the commit" and api.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return f"run {api.attempt}, taken {taken}"


def begin(request: ModelRequest) -> Call:
    """The input says where the worker dies."""
    return call("plan", place=request.messages[-1].text)


def answer(request: ModelRequest) -> Reply | Call:
    """Thanks are answered in text."""
    return begin(request) if request.messages[-1].text != "thanks" else say("welcome")


app = App(
    model=ScriptedModel.for_each_input([answer, say("done")]),
    extensions=[Extension("test", [plan], tasks=[echoing()], documents=[PLAN])],
)
