"""What the tests of traces, metrics and logs run: an agent that does what the input's first word says.

What it says, is told and passes holds `SECRET`, so that a test can look for it where it must not be.
"""

from __future__ import annotations

import logging
import os
import signal
import time
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

from pydantic import BaseModel

from tarry import (
    App,
    Ask,
    DurableTask,
    Expired,
    Extension,
    HookApi,
    HookCall,
    Hooks,
    HookTask,
    Received,
    Shown,
    Signal,
    Sleep,
    ToolApi,
    Turn,
    tool,
)
from tarry.core.messages import UserMessage
from tarry.core.model_info import Prices
from tarry.core.subagents.definition import AgentDefinition, Snapshot, SubagentSettings
from tarry.models import ModelInfo, ModelRequest
from tarry.subagents.extension import subagents
from tarry.testing import Call, Fail, Reply, ScriptedModel, call, say

NAME = "tests.support.seen_app:app"
SECRET = "swordfish"
HOLD = "SEEN_HOLD"
"""Names a file: while it is there `inner` does not end."""


class Words(BaseModel):
    """What a person says."""

    text: str


WORDS = Signal("seen.words", 1, Words)


@tool(replay="safe")
async def ask_ana(question: str, api: ToolApi, seconds: float | None = None) -> str | Sleep:
    """Ask Ana, and wait for so many seconds."""
    match await api.read_signal(WORDS, "answer"):
        case Received(value=words):
            return f"Ana says {words.text}"
        case Expired():
            return "Ana said nothing."
    until = None if seconds is None else timedelta(seconds=seconds)
    return Sleep(signals=[WORDS.key("answer")], until=until, ask=Ask(text=question, for_whom="Ana"))


@tool
def inner(word: str) -> str:
    """Say a word again."""
    while Path(os.environ.get(HOLD, "/nowhere/at/all")).exists():
        time.sleep(0.02)
    return f"{word} {SECRET}"


@tool(replay="safe")
async def outer(word: str, api: ToolApi) -> str:
    """Have a word said again by another tool."""
    logging.getLogger("app").info("the word is %s", word)
    return (await api.execute_tool("inner", {"word": word}, key="inner")).text


def _die_once(api: ToolApi) -> str:
    if api.attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@tool(replay="safe")
async def fragile(word: str, api: ToolApi) -> str:
    """Kill the worker, once."""
    return _die_once(api)


@tool
async def brittle(word: str, api: ToolApi) -> str:
    """Kill the worker, and never run again."""
    return _die_once(api)


@tool
async def big(word: str) -> str:
    """Say more than a history takes."""
    return word * 100_000


@tool
async def broken(word: str) -> str:
    """Fail."""
    raise ValueError(f"no {SECRET} here")


def _rage(request: ModelRequest) -> Reply:
    raise KeyError(f"no {SECRET} either")


def _asked(request: ModelRequest) -> str:
    return next(message.text for message in reversed(request.messages) if isinstance(message, UserMessage))


def _first(request: ModelRequest) -> Reply | Call | Fail:
    match _asked(request).split()[0]:
        case "ask":
            return call("ask_ana", question=f"Which colour has the {SECRET}?")
        case "soon":
            return call("ask_ana", question="Well?", seconds=0.1)
        case "delegate" | "delegate-soon" as what:
            prompt = "soon" if what == "delegate-soon" else "nest"
            return call("subagent", agent="scout", task_name="scout", prompt=prompt)
        case "nest":
            return call("outer", word=SECRET)
        case "fragile" | "brittle" | "big" | "broken" | "inner" as name:
            return call(name, word=SECRET)
        case "rage":
            return _rage(request)
    return say(f"Heard the {SECRET}.")


def _then(request: ModelRequest) -> Reply | Call:
    return (
        call("wait_agent", timeout_seconds=120) if _asked(request).startswith("delegate") else say(f"Done: {SECRET}.")
    )


def _redact(shown: Shown) -> object:
    if shown.field == "arguments":
        return dict.fromkeys(shown.value, "[hidden]")
    return shown.value.replace(SECRET, "[hidden]")


_EXTENSIONS = [
    Extension("seen", [ask_ana, inner, outer, fragile, brittle, big, broken], signals=[WORDS]),
    subagents(
        Snapshot(
            definitions=(AgentDefinition(name="scout", description="Looks around."),),
            settings=SubagentSettings(inherit_extensions=True, max_concurrent_runs=2),
        )
    ),
]
PRICES = ModelInfo(prices=Prices(input=Decimal(3), output=Decimal(15)))
_MODEL = ScriptedModel.for_each_input([_first, _then, lambda _: say("All done.")], "scripted/1", info=PRICES)

app = App(model=_MODEL, extensions=_EXTENSIONS, redact=_redact)
"""With a redactor that hides the secret."""


review: DurableTask[str, str] = DurableTask("review", str, str)


@review.phase
def look(told: str, api: ToolApi) -> str:
    """Say what was said."""
    return told


def _on_yield(turn: Turn) -> list[HookTask]:
    return [HookTask(review, turn.text)]


def _lets_pass(call: HookCall, api: HookApi) -> None: ...


_FLAKY = ScriptedModel.for_each_input(
    [Fail("retryable", "busy"), _first, _then, lambda _: say("All done.")], "scripted/2", info=PRICES
)
hooked = App(
    model=_FLAKY,
    extensions=[
        *_EXTENSIONS,
        Extension("hooks", tasks=[review], hooks=Hooks(before_tool=_lets_pass, on_yield=_on_yield)),
    ],
)
"""With hooks at each end, and a model that fails once."""
HOOKED = "tests.support.seen_app:hooked"
