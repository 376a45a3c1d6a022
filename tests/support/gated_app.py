"""The application of the drills with gates: calls wait for a person before they run, and are killed on the way.

The input names the tools to call, with commas between them. `app` has one approval, `changed` another one in its place,
`ungated` none: as three deploys would.
"""

from __future__ import annotations

from tarry.api import Received, ToolApi
from tarry.app import App, Extension
from tarry.core.messages import ToolMessage, UserMessage
from tarry.drills.kit.points import stop_at
from tarry.gates import DECISION, approvals
from tarry.hooks import Gate, HookApi, HookCall, Hooks
from tarry.models import ModelRequest
from tarry.testing import Reply, call, calls, say
from tarry.tools import tool
from tests.support.drill_points import StoppingModel, record


def _watch(call: HookCall, api: HookApi) -> Gate:
    """Notes each pass, and whether it found an answer; passes everything."""
    is_answered = isinstance(api.read_signal_sync(DECISION, call.digest), Received)
    point = "decided" if is_answered else "asked"
    record("passes", task_id=call.task_id, point=point)
    stop_at(point, call.conversation_id)
    return None


def _run(name: str, title: str, api: ToolApi) -> str:
    record(
        "ledger",
        tool=name,
        title=title,
        conversation_id=api.conversation_id,
        attempt=api.attempt,
        key=api.idempotency_key,
    )
    stop_at("in the tool", api.conversation_id)
    return f"did {title}"


@tool
def unsafe(title: str, api: ToolApi) -> str:
    """Have an effect, by the default declaration."""
    return _run("unsafe", title, api)


@tool(replay="safe")
def safe(title: str, api: ToolApi) -> str:
    """Have an effect, and run again when the worker is lost."""
    return _run("safe", title, api)


def _first(request: ModelRequest) -> Reply:
    wanted = next(m for m in reversed(request.messages) if isinstance(m, UserMessage)).text
    return calls(*(call(name, title=str(number)) for number, name in enumerate(wanted.split(","))))


def _report(request: ModelRequest) -> Reply:
    return say(" ".join("error" if m.is_error else "done" for m in request.messages if isinstance(m, ToolMessage)))


def _app(*gates: Extension) -> App:
    tools = Extension("drill", [unsafe, safe], signals=[DECISION], hooks=Hooks(before_tool=_watch))
    return App(model=StoppingModel(_first, _report), extensions=[tools, *gates])


app = _app(approvals(lambda call: True))
changed = _app(approvals(lambda call: True, name="second"))
ungated = _app()
