"""What the chat's tests talk to: an agent that does what the input names."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from tarry import App, Ask, Extension, Received, Signal, Sleep, ToolApi, tool
from tarry.core.messages import UserMessage
from tarry.gates import approvals
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, call, say

NAME = "tests.support.chat_app:app"


class Words(BaseModel):
    """What a person says."""

    text: str


WORDS = Signal("chat.words", 1, Words)


@tool(replay="safe")
async def look_up(name: str, api: ToolApi) -> str:
    """Look something up, which takes a while."""
    for drawer in range(8):
        api.output(f"opening drawer {drawer}\n")
        await asyncio.sleep(0.5)
    return f"{name}: third drawer"


@tool
def shell(command: str) -> str:
    """Run a command."""
    return f"ran {command}"


@tool(replay="safe")
async def ask_ana(question: str, api: ToolApi) -> str | Sleep:
    """Ask Ana."""
    match await api.read_signal(WORDS, "answer"):
        case Received(value=words):
            return f"Ana says {words.text}"
    return Sleep(signals=[WORDS.key("answer")], ask=Ask(text=question, for_whom="Ana"))


@tool(replay="safe")
async def delegate(question: str, api: ToolApi) -> str:
    """Have another call ask."""
    return (await api.execute_tool("ask_ana", {"question": question}, key="ask")).text


def _first(request: ModelRequest) -> Reply | Call:
    text = next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))
    match text.split():
        case ["look", *_]:
            return call("look_up", name="keys")
        case ["rm", *_]:
            return call("shell", command=text)
        case ["ask", *_]:
            return call("ask_ana", question="Which colour?")
        case ["delegate", *_]:
            return call("delegate", question="Which shape?")
        case ["talk", *_]:
            return say("\n".join(f"line {n} of the answer" for n in range(400)), chunks=400, delay=0.1)
    return say(f"you said: {text}")


def _then(request: ModelRequest) -> Reply:
    return say(f"heard: {request.messages[-1].text.splitlines()[0]}")


app = App(
    model=ScriptedModel.for_each_input([_first, _then]),
    extensions=[
        Extension("chat", [look_up, shell, ask_ana, delegate], signals=[WORDS]),
        approvals(lambda call: call.tool == "shell"),
    ],
)
