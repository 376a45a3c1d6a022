"""The application of the drills' workers: its tools and its model stop at named points, where they can be killed.

The input decides what is done: `say …` is answered in text, any other input is the name of the tool to call. What
happens is written where no crash can undo it: each run of a tool into the ledger, each request into a file.
"""

from __future__ import annotations

import asyncio
import os

import httpx

from tarry.api import StaleRun, ToolApi
from tarry.app import App, Extension
from tarry.core.messages import ToolMessage, UserMessage
from tarry.demo.tracker import Ticket
from tarry.drills.kit.points import stop_at
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, call, fail, say
from tarry.tools import tool
from tests.support.drill_points import StoppingModel, record

TRACKER = os.environ["DRILL_TRACKER"]
PROVIDER_FAILURES = int(os.environ.get("DRILL_PROVIDER_FAILURES", "0"))

BIG_LINES = 1_900
"""Of 25 characters: within what a model is shown, and too large for a payload in history."""


def _first(request: ModelRequest) -> Reply | Call:
    wanted = next(m for m in reversed(request.messages) if isinstance(m, UserMessage)).text
    if wanted.startswith("say "):
        return say(wanted.removeprefix("say "))
    return call(wanted, title=request.session_id)


def _report(request: ModelRequest) -> Reply:
    result = request.messages[-1]
    assert isinstance(result, ToolMessage), "the script reports after a tool"
    return say("It was interrupted." if result.is_error else f"It says: {result.text[:80]}")


def _begin(name: str, title: str, api: ToolApi) -> None:
    record(
        "ledger",
        tool=name,
        title=title,
        conversation_id=api.conversation_id,
        attempt=api.attempt,
        key=api.idempotency_key,
    )
    api.output(f"run {api.attempt} begins\n")
    stop_at("before the effect", api.conversation_id)


def _headers(api: ToolApi, *, keyed: bool) -> dict[str, str]:
    return {"Idempotency-Key": api.idempotency_key} if keyed else {}


def _ticket(name: str, title: str, api: ToolApi, *, keyed: bool) -> str:
    _begin(name, title, api)
    response = httpx.post(f"{TRACKER}/tickets", json={"title": title}, headers=_headers(api, keyed=keyed))
    response.raise_for_status()
    stop_at("after the effect", api.conversation_id)
    return f"Opened {response.json()['id']}"


@tool
def unsafe(title: str, api: ToolApi) -> str:
    """Open a ticket: the default declaration."""
    return _ticket("unsafe", title, api, keyed=False)


@tool(replay="safe")
def safe(title: str, api: ToolApi) -> str:
    """Open a ticket: declared safe, and not so."""
    return _ticket("safe", title, api, keyed=False)


@tool(replay="safe")
async def keyed(title: str, api: ToolApi) -> str:
    """Open a ticket: safe, since the tracker knows the key."""
    return await asyncio.to_thread(_ticket, "keyed", title, api, keyed=True)


def _look_up(title: str, api: ToolApi) -> str | None:
    """The ticket that this very call opened."""
    tickets = [Ticket.model_validate(ticket) for ticket in httpx.get(f"{TRACKER}/tickets").json()]
    return next((f"Opened {ticket.id}" for ticket in tickets if ticket.key == api.idempotency_key), None)


@tool(reconcile=_look_up)
def asking(title: str, api: ToolApi) -> str:
    """Open a ticket: not safe, but the tracker can be asked."""
    return _ticket("asking", title, api, keyed=True)


@tool(replay="safe")
def remembering(title: str, api: ToolApi) -> str:
    """Store two memos, a stop between them. A run that was given up says so in the ledger, and answers all the same."""
    chosen = api.memo_sync("chosen", f"run {api.attempt}")
    _begin("remembering", title, api)
    try:
        late = api.memo_sync("late", f"run {api.attempt}")
    except StaleRun:
        late = f"refused to run {api.attempt}"
    record("memos", conversation_id=title, chosen=chosen, late=late)
    return f"{chosen}, {late}"


@tool(replay="safe")
def big(title: str, api: ToolApi) -> str:
    """Return more than fits into history."""
    _begin("big", title, api)
    return "\n".join(f"{number:05d} of the big result" for number in range(BIG_LINES))


_failures = [fail("retryable", retry_after=1.0, times=PROVIDER_FAILURES)] if PROVIDER_FAILURES else []

app = App(
    model=StoppingModel(*_failures, _first, _report),
    extensions=[Extension("drill", [unsafe, safe, keyed, asking, remembering, big])],
)
