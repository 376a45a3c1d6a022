"""The application of a drill: a tool whose worker kills itself right after it forked the conversation."""

from __future__ import annotations

import os
import signal

from tarry import App, Extension, ToolApi
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, call, say
from tarry.tools import tool

NAME = "tests.support.forks_app:app"


@tool(replay="safe")
async def branch(api: ToolApi) -> str:
    """Fork this conversation, die in the first run, and say in the fork which run it was."""
    fork = await api.own_conversation("aside", fork_of=api.conversation_id)
    if api.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    await api.submit(fork, f"run {api.attempt}", request_id="aside")
    return fork


def decide(request: ModelRequest) -> Reply | Call:
    """An input that says so is answered by a fork, any other in text."""
    return call("branch") if request.messages[-1].text == "fork" else say("fine")


app = App(
    model=ScriptedModel.for_each_input([decide, say("done")]),
    extensions=[Extension("test", [branch])],
)
