"""The application of the drills with work below work: subagents, nested calls and the tasks of a run's hooks.

The input says what the model does: `delegate N` hands `delegate N-1` to a subagent, at 0 a person is asked; `nest TOOL`
lets that tool await a nested call; `review` and `round` have a task before the answer stands, and after the round.
"""

from __future__ import annotations

import os
from typing import Any

import httpx
from pydantic import BaseModel

from tarry import SUBMISSION_SETTLED, DurableTask, Hooks, HookTask, Received, Signal, Sleep, Turn
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.core.messages import UserMessage
from tarry.drills.kit.points import stop_at
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, call, say
from tarry.tools import tool
from tests.support.drill_points import StoppingModel, record

DONE = "done"


class Words(BaseModel):
    """What a person says."""

    text: str


WORDS = Signal("drill.words", 1, Words)


def _begin(name: str, title: str, api: ToolApi) -> None:
    record(
        "ledger",
        tool=name,
        title=title,
        conversation_id=api.conversation_id or api.task_id,
        attempt=api.attempt,
        key=api.idempotency_key,
        wake=str(api.wake or ""),
    )


@tool(replay="safe")
async def delegate(task: str, api: ToolApi) -> str | Sleep:
    """Give a subagent a task, and wait for its answer."""
    _begin("delegate", task, api)
    state = await api.read_signal(SUBMISSION_SETTLED, DONE)
    if isinstance(state, Received):
        return state.value.answer_text or state.value.reason
    child = await api.own_conversation("sub")
    record("owned", child=child, task=task)
    await api.submit(child, task, request_id="task", notify=DONE)
    return Sleep(signals=[SUBMISSION_SETTLED.key(DONE)])


@tool(replay="safe")
def ask_person(title: str, api: ToolApi) -> str | Sleep:
    """Ask a person, and open a ticket with the answer."""
    _begin("ask_person", title, api)
    state = api.read_signal_sync(WORDS, DONE)
    if not isinstance(state, Received):
        return Sleep(signals=[WORDS.key(DONE)], ask=f"What of {title}?")
    headers = {"Idempotency-Key": api.idempotency_key}
    httpx.post(f"{os.environ['DRILL_TRACKER']}/tickets", json={"title": title}, headers=headers).raise_for_status()
    return state.value.text


def _nests(name: str, title: str, api: ToolApi) -> str:
    _begin(name, title, api)
    return api.execute_tool_sync("ask_person", {"title": title}, key="ask").text


@tool(replay="safe")
def safe_caller(title: str, api: ToolApi) -> str:
    """Await a nested call."""
    return _nests("safe_caller", title, api)


@tool
def unsafe_caller(title: str, api: ToolApi) -> str:
    """Await a nested call, by the default declaration."""
    return _nests("unsafe_caller", title, api)


@tool(replay="safe")
def look() -> str:
    """Look."""
    return "seen"


judge: DurableTask[str, dict[str, Any]] = DurableTask("drill.judge", str, dict[str, Any])


@judge.phase
def decide(told: str, api: ToolApi) -> dict[str, Any]:
    """Say what is to become of the run."""
    _begin("judge", told, api)
    stop_at("in the hook's task", api.conversation_id)
    decisions: dict[str, dict[str, Any]] = {"seen": {"terminate": True}, "bad": {"continue": "better"}}
    return decisions.get(told, {})


def _on_yield(turn: Turn) -> list[HookTask]:
    return [HookTask(judge, turn.text)] if turn.text in ("bad", "good") else []


def _after_tools(turn: Turn) -> list[HookTask]:
    return [HookTask(judge, result.text) for result in turn.results if result.tool == "look"]


def _first(request: ModelRequest) -> Reply | Call:
    wanted = next(m for m in reversed(request.messages) if isinstance(m, UserMessage)).text
    match wanted.split():
        case ["delegate", "0"]:
            return call("ask_person", title=request.session_id)
        case ["delegate", level]:
            return call("delegate", task=f"delegate {int(level) - 1}")
        case ["nest", caller]:
            return call(caller, title=request.session_id)
        case ["round"]:
            return call("look")
    return say({"review": "bad"}.get(wanted, "good"))


def _report(request: ModelRequest) -> Reply:
    return say(f"heard {request.messages[-1].text}"[:80])


app = App(
    model=StoppingModel(_first, _report),
    extensions=[
        Extension(
            "drill",
            [delegate, ask_person, safe_caller, unsafe_caller, look],
            signals=[WORDS],
            tasks=[judge],
            hooks=Hooks(on_yield=_on_yield, after_tools=_after_tools),
        )
    ],
)
