"""What tests of waiting talk to: a tool that waits for what the input names, and one that runs until it is stopped."""

from __future__ import annotations

import asyncio
from datetime import timedelta

from pydantic import BaseModel

from tarry import App, Ask, Extension, Signal, Sleep, ToolApi, tool
from tarry.core.messages import UserMessage
from tarry.models import ModelRequest
from tarry.testing import Call, ScriptedModel, call, say

NAME = "tests.support.waiting_app:app"


class Verdict(BaseModel):
    """How a build ended."""

    status: str


CI_RESULT = Signal("app.ci-result", 1, Verdict)


@tool
async def wait_for(key: str, seconds: float | None, api: ToolApi) -> str | Sleep:
    """Wait for the CI service under `key`, at most so many seconds when there are any."""
    if api.wake is None:
        until = timedelta(seconds=seconds) if seconds is not None else None
        return Sleep(until=until, signals=[CI_RESULT.key(key)], ask=Ask(text="Did it pass?", for_whom="ops"))
    return f"woken by {api.wake.reason}: {await api.read_signal(CI_RESULT, key)}"


@tool
async def run_on() -> str:
    """Run until it is stopped."""
    await asyncio.Event().wait()
    return ""


def _asked(request: ModelRequest) -> Call:
    """`run on`, or `key`, or `key seconds`."""
    text = next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))
    if text == "run on":
        return call("run_on")
    key, _, seconds = text.partition(" ")
    return call("wait_for", key=key, seconds=float(seconds) if seconds else None)


app = App(
    model=ScriptedModel.for_each_input([_asked, say("thank you")]),
    extensions=[Extension("ci", [wait_for, run_on], signals=[CI_RESULT])],
)
