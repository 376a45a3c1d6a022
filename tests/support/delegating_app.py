"""What the tests of `tarry agents` talk to: an agent that delegates, asks and works as the input says."""

from __future__ import annotations

import asyncio

from pydantic import BaseModel

from tarry import App, Ask, Extension, Received, Signal, Sleep, ToolApi, tool
from tarry.core.messages import UserMessage
from tarry.core.subagents.definition import AgentDefinition, Snapshot, SubagentSettings
from tarry.models import ModelRequest
from tarry.subagents.extension import subagents
from tarry.testing import Call, Reply, ScriptedModel, call, say

NAME = "tests.support.delegating_app:app"


class Words(BaseModel):
    """What a person says."""

    text: str


WORDS = Signal("agents.words", 1, Words)


@tool(replay="safe")
async def ask_ana(question: str, api: ToolApi) -> str | Sleep:
    """Ask Ana."""
    match await api.read_signal(WORDS, "answer"):
        case Received(value=words):
            return f"Ana says {words.text}"
    return Sleep(signals=[WORDS.key("answer")], ask=Ask(text=question, for_whom="Ana"))


@tool(replay="safe")
async def work(api: ToolApi) -> str:
    """Work until it is stopped."""
    api.output("at work\n")
    await asyncio.sleep(3_600)
    return "never"


def asked(request: ModelRequest) -> str:
    """What the model was asked last."""
    return next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))


def _first(request: ModelRequest) -> Reply | Call:
    match asked(request).split():
        case ["start", name, *prompt]:
            return call("subagent", agent="scout", task_name=name, prompt=" ".join(prompt))
        case ["ask", *_]:
            return call("ask_ana", question="Which colour?")
        case ["work", *_]:
            return call("work")
    return say(f"heard {asked(request)}")


def _then(request: ModelRequest) -> Reply | Call:
    """An agent that has started another one waits for it; the root does not."""
    if asked(request) == "start auth ask":
        return call("wait_agent", timeout_seconds=120)
    return say(f"done: {request.messages[-1].text.splitlines()[0][:60]}")


app = App(
    model=ScriptedModel.for_each_input([_first, _then, lambda _: say("all done")]),
    extensions=[
        Extension("world", [ask_ana, work], signals=[WORDS]),
        subagents(
            Snapshot(
                definitions=(AgentDefinition(name="scout", description="Looks around."),),
                settings=SubagentSettings(inherit_extensions=True, max_concurrent_runs=2),
            )
        ),
    ],
)
