"""The application of the drills with work that waits: it parks, and can be killed at each step on the way.

The input names the tool to call and, after a blank, how many seconds it waits at most; several calls have commas
between them. A first run opens a ticket and parks; a woken one opens a second and ends. `NEWS` under the key `done`
wakes it.
"""

from __future__ import annotations

import os
from datetime import timedelta

import httpx
from pydantic import BaseModel

from tarry import Ask, Signal, Sleep
from tarry.api import Expired, Received, ToolApi
from tarry.app import App, Extension
from tarry.core.messages import ToolMessage, UserMessage
from tarry.demo.tracker import Ticket
from tarry.drills.kit.points import stop_at
from tarry.models import ModelRequest
from tarry.tasks import DurableTask, Go
from tarry.testing import Call, Reply, call, calls, say
from tarry.tools import tool
from tests.support.drill_points import StoppingModel, record

DONE = "done"


class News(BaseModel):
    """What the calls wait for."""

    text: str


NEWS = Signal("drill.news", 1, News)


def _place(api: ToolApi) -> str:
    """Whose plan of stops it follows; a task that has no conversation has one of its own."""
    return api.conversation_id or api.task_id


def _begin(name: str, title: str, api: ToolApi) -> None:
    record(
        "ledger",
        tool=name,
        title=title,
        conversation_id=_place(api),
        attempt=api.attempt,
        key=api.idempotency_key,
        wake=str(api.wake or ""),
        checkpoint=api.checkpoint,
    )


def _ticket(api: ToolApi) -> str:
    """Opened under the key of the run, so that the tracker knows a repeat."""
    headers = {"Idempotency-Key": api.idempotency_key}
    response = httpx.post(f"{os.environ['DRILL_TRACKER']}/tickets", json={"title": _place(api)}, headers=headers)
    response.raise_for_status()
    return Ticket.model_validate(response.json()).id


def _waits(name: str, title: str, seconds: float | None, api: ToolApi) -> str | Sleep:
    _begin(name, title, api)
    if api.wake is None:
        asked = api.memo_sync("asked", _ticket(api))
        stop_at("before the park", _place(api))
        until = None if seconds is None else timedelta(seconds=seconds)
        return Sleep("asked", until, [NEWS.key(DONE)], Ask(text=f"What of {asked}?", for_whom="ops"))
    api.output("woken\n")
    found = _told(api)
    record("seen", conversation_id=_place(api), title=title, found=found)
    _ticket(api)
    stop_at("in the woken run", _place(api))
    return found


def _told(api: ToolApi) -> str:
    match api.read_signal_sync(NEWS, DONE):
        case Received(value=news):
            return news.text[:40]
        case Expired():
            return "expired"
        case nothing:
            return f"woken for {nothing}"


def _clean_up(name: str, title: str, api: ToolApi) -> None:
    _begin(name, title, api)
    stop_at("in the hook", _place(api))
    record("cleaned", conversation_id=_place(api), memo=api.memo_sync("asked", "nothing"), checkpoint=api.checkpoint)


def _cancel(title: str, api: ToolApi) -> None:
    _clean_up("clean-up", title, api)


@tool
def unsafe(title: str, seconds: float | None, api: ToolApi) -> str | Sleep:
    """Wait, by the default declaration."""
    return _waits("unsafe", title, seconds, api)


@tool(cancel=_cancel)
def hooked(title: str, seconds: float | None, api: ToolApi) -> str | Sleep:
    """Wait, and have something to clean up."""
    return _waits("hooked", title, seconds, api)


@tool(replay="safe")
def safe(title: str, seconds: float | None, api: ToolApi) -> str | Sleep:
    """Wait, and run again when the worker is lost."""
    return _waits("safe", title, seconds, api)


order: DurableTask[str, str] = DurableTask("drill.order", str, str)


@order.phase
def place(title: str, api: ToolApi) -> Go:
    """Ask for it."""
    _begin("place", title, api)
    asked = api.memo_sync("asked", _ticket(api))
    stop_at("in a phase", _place(api))
    return Go("wait", {"asked": bool(asked)})


@order.phase
def wait(title: str, api: ToolApi) -> Sleep:
    """Park for it."""
    _begin("wait", title, api)
    return Sleep(Go("read", "waited"), signals=[NEWS.key(DONE)])


@order.phase
def read(title: str, api: ToolApi) -> str:
    """Read the answer."""
    _begin("read", title, api)
    stop_at("in the woken phase", _place(api))
    return _told(api)


@order.abort
def cancelled(title: str, api: ToolApi) -> None:
    """Take it back."""
    _clean_up("cancelled", title, api)


def _first(request: ModelRequest) -> Reply:
    wanted = next(m for m in reversed(request.messages) if isinstance(m, UserMessage)).text
    return calls(*(_call(text, title=str(number)) for number, text in enumerate(wanted.split(","))))


def _call(wanted: str, title: str) -> Call:
    name, _, seconds = wanted.partition(" ")
    return call(name, title=title, seconds=float(seconds) if seconds else None)


def _report(request: ModelRequest) -> Reply:
    result = request.messages[-1]
    assert isinstance(result, ToolMessage), "the script reports after a tool"
    return say("It was cut off." if result.is_error else f"It says: {result.text[:80]}")


app = App(
    model=StoppingModel(_first, _report),
    extensions=[Extension("drill", [unsafe, hooked, safe], signals=[NEWS], tasks=[order])],
)
