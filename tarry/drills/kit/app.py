"""What the workers of most drills serve: tools that open a ticket at the tracker, under each replay policy.

The input says what the model does: `say TEXT` is answered in text; `TOOL` calls that tool, and `TOOL park` has it wait
for `NEWS` first. The title of a ticket is the conversation's id. Tools and model hold at points (`points.py`).
"""

from __future__ import annotations

import os

import httpx
from pydantic import BaseModel

from signals import Ask, Signal, Sleep
from tarry.api import Expired, Received, ToolApi
from tarry.app import App, Extension
from tarry.core.messages import ToolMessage, UserMessage
from tarry.demo.tracker import Ticket
from tarry.drills.kit.ground import BEGUN, TRACKER
from tarry.drills.kit.model import HoldingModel
from tarry.drills.kit.points import stop_at
from tarry.models import ModelRequest
from tarry.testing.steps import Reply, call, calls, say
from tarry.tools import tool

AFTER = "after the effect"
DONE = "done"


class News(BaseModel):
    """What a call waits for."""

    text: str


NEWS = Signal("drill.news", 1, News)


@tool
def unsafe(title: str, park: bool, api: ToolApi) -> str | Sleep:
    """Open a ticket, by the default declaration."""
    return _wait(api) if park and api.wake is None else _open(title, api)


@tool(replay="safe")
def safe(title: str, park: bool, api: ToolApi) -> str | Sleep:
    """Open a ticket: declared safe, and not so, since no key is sent."""
    return _wait(api) if park and api.wake is None else _open(title, api)


@tool(replay="safe")
def keyed(title: str, park: bool, api: ToolApi) -> str | Sleep:
    """Open a ticket: safe, since the tracker knows the key."""
    return _wait(api) if park and api.wake is None else _open(title, api, key=api.idempotency_key)


def _look_up(title: str, api: ToolApi) -> str | None:
    """The ticket that this very run opened."""
    with _tracker() as tracker:
        tickets = [Ticket.model_validate(ticket) for ticket in tracker.get("/tickets").raise_for_status().json()]
    return next((f"Opened {ticket.id}" for ticket in tickets if ticket.key == api.idempotency_key), None)


@tool(reconcile=_look_up)
def reconciled(title: str, park: bool, api: ToolApi) -> str | Sleep:
    """Open a ticket: not safe, but the tracker can be asked."""
    return _wait(api) if park and api.wake is None else _open(title, api, key=api.idempotency_key)


def _wait(api: ToolApi) -> Sleep:
    return Sleep("asked", signals=[NEWS.key(DONE)], ask=Ask(text="Shall the ticket be opened?", for_whom="ops"))


def _open(title: str, api: ToolApi, key: str | None = None) -> str:
    stop_at(BEGUN, api.conversation_id)
    headers = {} if key is None else {"Idempotency-Key": key}
    with _tracker() as tracker:
        ticket = tracker.post("/tickets", json={"title": title}, headers=headers).raise_for_status().json()
    stop_at(AFTER, api.conversation_id)
    return f"Opened {ticket['id']}{_why(api)}"


def _why(api: ToolApi) -> str:
    match api.read_signal_sync(NEWS, DONE):
        case Received(value=news):
            return f", told {news.text!r}"
        case Expired():
            return ", told nothing in time"
    return ""


def _tracker() -> httpx.Client:
    # No proxy of the environment: the tracker is on this machine.
    return httpx.Client(base_url=os.environ[TRACKER], trust_env=False)


def first(request: ModelRequest) -> Reply:
    """What the input asks for. A call comes with a text, so that there is a stream to be cut."""
    wanted = next(message for message in reversed(request.messages) if isinstance(message, UserMessage)).text
    if wanted.startswith("say "):
        return say(wanted.removeprefix("say "))
    name, _, park = wanted.partition(" ")
    return calls(call(name, title=request.session_id, park=bool(park)), text="I open a ticket.")


def report(request: ModelRequest) -> Reply:
    """What is said of the result."""
    result = request.messages[-1]
    assert isinstance(result, ToolMessage), "the script reports after a tool"
    return say("It was cut off." if result.is_error else f"It says: {result.text[:80]}")


TOOLS = (unsafe, safe, keyed, reconciled)

app = App(model=HoldingModel(first, report), extensions=[Extension("drill", TOOLS, signals=[NEWS])])
