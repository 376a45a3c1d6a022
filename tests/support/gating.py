"""Calls that hooks are asked about: started alone on a stage, with what they asked, heard and ran."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from signals.parking import Sleep
from signals.tokens import SignalKey
from tarry.api import Expired, Received
from tarry.app import App, Extension
from tarry.core.gates import REASK
from tarry.core.messages import AssistantMessage, ToolCallRequest
from tarry.core.protocol import TOOL_CALL, RunSettings
from tarry.core.resolve import resolve_calls
from tarry.core.task_state import ToolCallInput
from tarry.core.waiting import TaskView
from tarry.gates import DECISION
from tarry.hooks import AfterTool, BeforeTool, Block, CallResult, Gate, HookApi, HookCall, Hooks
from tarry.testing import ScriptedModel, say
from tarry.tools import Tool, tool
from tests.support.parking import ANSWER, HOUR, QUICK, YES, Call
from tests.support.stage import Stage
from tests.support.waiting import eventually


@dataclass
class Ledger:
    """What tools were run with."""

    runs: list[dict[str, Any]] = field(default_factory=list)

    @property
    def edit(self) -> Tool:
        """A tool with an effect."""

        @tool(name="edit")
        def edit(path: str, mode: str = "w") -> str:
            """Edit a file."""
            self.runs.append({"path": path, "mode": mode})
            return f"edited {path}"

        return edit


@dataclass
class Heard:
    """An `after_tool` hook, and the code of each result that it heard of."""

    codes: list[str] = field(default_factory=list)
    ran: list[bool] = field(default_factory=list)

    def __call__(self, call: HookCall, result: CallResult, api: HookApi) -> None:
        self.codes.append(result.code)
        self.ran.append(result.ran)


class Guard:
    """A gate that lets a call pass once each of `keys` holds a value; it waits for them one by one, or `together`.

    One that has expired blocks the call. `passes` has an item for each time it was asked: the keys, and others that it
    looks at, that held a value then; its memo `after <these>` is the number of the pass that wrote it. It stays in
    those passes that are `held` until `go` is set.
    """

    def __init__(
        self,
        *keys: str,
        looks_at: str = "",
        held: tuple[int, ...] = (),
        until: timedelta = HOUR,
        together: bool = False,
    ) -> None:
        self.keys = keys
        self.passes: list[str] = []
        self.go = threading.Event()
        self._looks_at = [*keys, *looks_at.split()]
        self._held = held
        self._until = until
        self._together = together

    def __call__(self, call: HookCall, api: HookApi) -> Gate:
        held = {key: api.read_signal_sync(ANSWER, key) for key in self._looks_at}
        found = [key for key, value in held.items() if isinstance(value, Received)]
        self.passes.append(" ".join(found))
        number = len(self.passes)
        api.memo_sync(f"after {' '.join(found)}", number)
        if number in self._held:
            self.go.wait(30)
        missing = [key for key in self.keys if key not in found]
        if any(isinstance(held[key], Expired) for key in missing):
            return Block("nobody answered", code="expired")
        awaited = [ANSWER.key(key) for key in (missing if self._together else missing[:1])]
        return Sleep(signals=awaited, until=self._until) if awaited else None

    async def asked(self, times: int) -> None:
        """Return when it was asked that often."""

        async def count() -> int:
            return len(self.passes)

        await eventually(count, lambda found: found >= times)


def gate(
    before: BeforeTool | None = None, after: AfterTool | None = None, name: str = "gate", **more: Any
) -> Extension:
    """An extension of hooks alone."""
    io = more.pop("io", False)
    return Extension(name, hooks=Hooks(before_tool=before, after_tool=after, io=io), **more)


def gated_app(used: Tool, *gates: Extension) -> App:
    """An application whose calls are started alone."""
    tools = Extension("test", [used], [ANSWER])
    return App(model=ScriptedModel([say("unused")]), extensions=[tools, *gates])


class Gated(Call):
    """A call with its gates."""

    async def asks(self, accept: Callable[[TaskView], bool] = lambda _: True) -> TaskView:
        """Return when it is parked before its intent."""
        return await eventually(self.view, lambda view: view.state == "gated" and accept(view))

    async def waits_for(self, key: SignalKey) -> TaskView:
        """Return when it is parked before its intent, on that key."""
        return await self.asks(lambda view: key in view.keys)

    async def decide(self, allow: bool, by: str = "ana", reason: str = "", key: str | None = None) -> str:
        """Answer its question: what became of that."""
        wanted = key if key is not None else (await self.asks(lambda view: bool(view.keys))).keys[0].key
        value = {"allow": allow, "by": by, "reason": reason}
        return (await self.update(wanted, value, signal=DECISION.name)).answer

    async def value(self, key: str, **more: Any) -> None:
        """Leave a value with the server, as a plain signal."""
        await self.handle.signal(ANSWER.name, {"key": key, "value": YES} | more)

    async def reask(self, fingerprint: str) -> None:
        """Tell it which registry is current."""
        await self.handle.signal(REASK, fingerprint)

    async def reasked(self, fingerprint: str) -> TaskView:
        """Tell it, and return when its hooks were asked anew and made it wait again."""
        before = (await self.asks()).since
        await self.reask(fingerprint)
        return await self.asks(lambda view: view.since != before)


async def start_gated(on: Stage, used: str, settings: RunSettings = QUICK, **arguments: Any) -> Gated:
    """Start a call of a tool of the stage's application, as a generation would."""
    registry = on.app.registry
    request = ToolCallRequest(call_id="c1", name=used, arguments=json.dumps(arguments))
    message = AssistantMessage(calls=(request,), stop="tool_use")
    (call,) = resolve_calls(message, registry.tools, registry.gated, registry.heard)
    id = f"conv-{uuid.uuid4().hex[:8]}~n/g1/t1.0"
    input = ToolCallInput(
        conversation_id=id.partition("~")[0],
        generation_id=id.rpartition("/")[0],
        call=call,
        settings=settings,
        takes_signals=True,
        judged_by_pass=True,
    )
    await on.client.start_workflow(TOOL_CALL, input, id=id, task_queue=on.settings.task_queue)
    return Gated(on.client, id, DECISION.name)
