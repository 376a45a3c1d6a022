"""The application of the drills with two builds: `v1`, and `v2` with other gates, another signature and one more tool.

The input says what is done: `hear` and `ring` wait for a signal, `nap SECONDS` for a time, `ship` for a person at a
gate, and `delegate` for an agent that waits for a signal. Each run is noted with the build that had it. `DRILL_CHANGED`
changes the workflows of a worker as a later state of their code would: by one more step where a call parks, `guarded`
or not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from temporalio import workflow

from signals.parking import Park
from tarry import Received, Signal, Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.core import task as machine
from tarry.core.messages import AssistantMessage, ToolMessage, UserMessage
from tarry.core.subagents.definition import AgentDefinition, Snapshot, SubagentSettings
from tarry.hooks import Gate, HookApi, HookCall, Hooks
from tarry.models import ModelRequest
from tarry.subagents.extension import subagents
from tarry.testing import Call, Reply, call, say
from tarry.tools import tool
from tests.support.drill_points import StoppingModel, record
from workflows.task.loop import Loop

BUILD = os.environ.get("TARRY_BUILD", "")
EXTRA = "test-extra-step"
KEY = "done"
HOLD = "hold"
"""While the folder has a file of this name, a woken tool does not look yet at what it was told."""


class Word(BaseModel):
    """What calls and gates wait for."""

    text: str = ""


WORD = Signal("drill.word", 1, Word)


def _began(name: str, api: ToolApi) -> None:
    facts = {"conversation_id": api.conversation_id, "attempt": api.attempt, "key": api.idempotency_key}
    record("ledger", tool=f"{BUILD} {name}", title="", wake=str(api.wake or ""), **facts)


def _heard(api: ToolApi) -> str:
    while (Path(os.environ["DRILL_FOLDER"]) / HOLD).exists():
        time.sleep(0.02)
    found = api.read_signal_sync(WORD, KEY)
    return found.value.text if isinstance(found, Received) else "nothing"


@tool
def hear(api: ToolApi) -> str | Sleep:
    """Wait for a signal."""
    _began("hear", api)
    return Sleep(signals=[WORD.key(KEY)]) if api.wake is None else f"{BUILD} heard {_heard(api)}"


@tool
def ring(api: ToolApi) -> str | Sleep:
    """Wait for a signal, by a tool that the other build declares with one more parameter."""
    _began("ring", api)
    return Sleep(signals=[WORD.key(KEY)]) if api.wake is None else f"{BUILD} heard {_heard(api)}"


@tool(name="ring")
def ring_louder(api: ToolApi, loud: bool = True) -> str | Sleep:
    """The same with that parameter."""
    _began("ring", api)
    return Sleep(signals=[WORD.key(KEY)]) if api.wake is None else f"{BUILD} heard {_heard(api)}, loud: {loud}"


@tool
def nap(seconds: float, api: ToolApi) -> str | Sleep:
    """Wait for a time."""
    _began("nap", api)
    return Sleep(until=timedelta(seconds=seconds)) if api.wake is None else f"{BUILD} is awake"


@tool
def ship(api: ToolApi) -> str:
    """Have an effect."""
    _began("ship", api)
    return f"{BUILD} shipped"


@tool
def confirm(api: ToolApi) -> str:
    """What only the second build has."""
    _began("confirm", api)
    return f"{BUILD} confirmed"


def _gate(name: str) -> Extension:
    def ask(call: HookCall, api: HookApi) -> Gate:
        if call.tool != "ship":
            return None
        is_answered = isinstance(api.read_signal_sync(WORD, name), Received)
        record("passes", task_id=call.task_id, point=f"{BUILD} {name} {'answered' if is_answered else 'asks'}")
        return None if is_answered else Sleep(signals=[WORD.key(name)])

    return Extension(name, hooks=Hooks(before_tool=ask))


def _step(request: ModelRequest) -> Reply | Call:
    """The call that the input names, then a confirm where there is such a tool, then what was reached."""
    last = max(place for place, message in enumerate(request.messages) if isinstance(message, UserMessage))
    name, *values = request.messages[last].text.split()
    since = request.messages[last + 1 :]
    results = [message.text for message in since if isinstance(message, ToolMessage)]
    made = sum(isinstance(message, AssistantMessage) for message in since)
    if name == "delegate":
        return _delegate(made, results)
    if made == 0:
        return call(name, **({"seconds": float(values[0])} if values else {}))
    if made == 1 and any(tool.name == "confirm" for tool in request.tools):
        return call("confirm")
    return say("; ".join(results))


def _delegate(made: int, results: Sequence[str]) -> Reply | Call:
    if made == 0:
        return call("subagent", agent="worker", prompt="hear", task_name="w0")
    if not any(" ended its turn." in text for text in results):
        return call("wait_agent", timeout_seconds=600)
    return say(results[-1])


def _app(tools: Sequence[Any], *gates: str) -> App:
    agent = AgentDefinition(name="worker", description="works", prompt="You work.")
    agents = subagents(Snapshot(definitions=(agent,), settings=SubagentSettings(inherit_extensions=True)))
    drill = Extension("drill", tools, signals=[WORD])
    return App(model=StoppingModel(*[_step] * 10), extensions=[drill, *map(_gate, gates), agents])


v1 = _app([hear, ring, nap, ship], "people", "budget")
v2 = _app([hear, ring_louder, nap, ship, confirm], "budget", "security")
"""Without the gate `people`, with another one."""


def _change_workflows(*, guarded: bool) -> None:
    rest = Loop._rest

    async def changed(self: Loop, park: Park) -> machine.Event | None:
        if not guarded or workflow.patched(EXTRA):
            await workflow.sleep(0.01)
        return await rest(self, park)

    Loop._rest = changed  # type: ignore[method-assign]  # what the changed build has in its place


if how := os.environ.get("DRILL_CHANGED"):
    _change_workflows(guarded=how == "guarded")
