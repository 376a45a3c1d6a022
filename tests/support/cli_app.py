"""What the command's tests talk to: one scripted agent that does what the input names."""

from __future__ import annotations

import asyncio
import os
import signal

from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.core.messages import UserMessage
from tarry.models import ModelRequest
from tarry.testing import Call, Fail, Reply, ScriptedModel, call, fail, say
from tarry.tools import tool

SPARED = "CLI_APP_SPARED"
"""The variable that lets a worker live when its input is to kill it."""

NAME = "tests.support.cli_app:app"


@tool
async def look_up(name: str, api: ToolApi) -> str:
    """Look something up, which takes a moment."""
    api.output(f"opening the drawer of {name}")
    await asyncio.sleep(1)
    return f"{name}: third drawer"


def _first(request: ModelRequest) -> Reply | Call | Fail:
    text = next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))
    match text:
        case "look up":
            return call("look_up", name="keys")
        case "talk on":
            return say(" ".join(f"word{n}" for n in range(600)), chunks=600, delay=0.1)
        case "ask an unknown model":
            return fail("permanent", "HTTP 404: The model `gpt-none` does not exist", times=None)
        case "fail":
            return fail("permanent", "HTTP 400: this cannot be answered", times=None)
        case "kill the worker" if not os.environ.get(SPARED):
            os.kill(os.getpid(), signal.SIGKILL)
    return say(f"you said: {text}")


app = App(
    model=ScriptedModel.for_each_input([_first, say("they are in the third drawer")]),
    extensions=[Extension("drawers", [look_up])],
)
