"""`tarry.ask-gates` and `tarry.tell-result`: the hooks of a call, asked in order (spec §5).

Each has a thread of its own and shares one time limit with the others; one that raises or does not answer blocks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import activity

from activities.runner import ToolThread
from signals.box import Box
from signals.parking import InvalidPark, Sleep, park
from signals.tokens import Signal
from tarry.api import Expired, Received
from tarry.app import Registry
from tarry.core import results
from tarry.core.arguments import BadArguments, parameters_text, settle_arguments
from tarry.core.gates import ASK_GATES, TELL_RESULT, Pass, PassInput, ResultInput, Told, arguments_digest
from tarry.core.protocol import ToolOutcome
from tarry.core.results import Diagnostic, plain_json
from tarry.core.text import bound_text
from tarry.core.waiting import ParkRequest
from tarry.hooks import Block, CallResult, HookApi, HookCall, Replace
from tarry.tools import ToolResult

T = TypeVar("T")

QUICK_SECONDS = 4.0
IO_SECONDS = 55.0
"""How long all hooks of a pass may take together."""
MAX_REASON = 2 * 1024


class GateActivities:
    """Asks the hooks of `registry`."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @activity.defn(name=ASK_GATES)
    async def ask(self, input: PassInput) -> Pass:
        """One pass from the first hook; the first block or sleep ends it. Tells of a tool this worker lacks."""
        tool = self._registry.tools.get(input.call.tool)
        if tool is None:
            return Pass(decision="not_here")
        asking = _Asking(input, self._registry.fingerprint, _limit(input.call.gated))
        for name, hooks in self._registry.hooks:
            if hooks.before_tool is not None and (end := await self._one(asking, name, hooks.before_tool)) is not None:
                return end
        try:
            arguments = settle_arguments(asking.arguments, tool.parameters)
        except BadArguments as error:
            text = results.invalid_arguments_text(tool.name, error.text, parameters_text(tool.parameters))
            return asking.end("error", reason=text, code="invalid_arguments")
        asking.arguments = arguments
        return asking.end("run")

    async def _one(self, asking: _Asking, name: str, hook: Callable[..., Any]) -> Pass | None:
        answer, problem = await asking.call(lambda: hook(asking.told, asking))
        if problem:
            return asking.end("block", reason=f"hook {name} {problem}", code="blocked")
        match answer:
            case None:
                return None
            case Replace(arguments=arguments):
                return asking.replaced(name, arguments)
            case Block():
                reason = bound_text(answer.reason, max_bytes=MAX_REASON).text
                return asking.end("block", reason=reason, code=answer.code, by=answer.by[:200])
            case Sleep():
                return self._sleep(asking, answer)
            case _:
                return asking.end("block", reason=f"hook {name} returned a {type(answer).__name__}", code="blocked")

    def _sleep(self, asking: _Asking, sleep: Sleep) -> Pass:
        try:
            found = park(sleep, Box(), asking.now())
            if unknown := next((key for key in found.keys if key.signal not in self._registry.signals), None):
                raise InvalidPark(f"no signal is named {unknown.signal!r}; declare it in the extension's signals")
        except InvalidPark as error:
            return asking.end("error", reason=str(error), code="invalid_park")
        request = ParkRequest(kind="park", until=found.until, keys=found.keys, ask=found.ask)
        return asking.end("sleep", park=request)

    @activity.defn(name=TELL_RESULT)
    async def tell(self, input: ResultInput) -> Told:
        """The result after every hook heard of it; a hook that raises leaves it as it is, with a remark."""
        outcome = input.outcome
        asking = _Asking(input.asked, self._registry.fingerprint, _limit(input.asked.call.heard))
        for name, hooks in self._registry.hooks:
            hook = hooks.after_tool
            if hook is not None:
                outcome = await self._heard(asking, name, hook, outcome)
        return Told(outcome=outcome)

    async def _heard(self, asking: _Asking, name: str, hook: Callable[..., Any], outcome: ToolOutcome) -> ToolOutcome:
        told = CallResult(outcome.text, outcome.is_error, outcome.code, outcome.facts.details)
        answer, problem = await asking.call(lambda: hook(asking.told, told, asking))
        if problem:
            activity.logger.warning("after_tool of %s %s", name, problem)
            return results.with_remark(outcome, Diagnostic(severity="warn", message=f"hook {name} {problem}"))
        if not isinstance(answer, ToolResult):
            return outcome
        try:
            return results.replaced(outcome, answer.content, is_error=answer.is_error, details=answer.details)
        except results.Unencodable as error:
            return results.with_remark(outcome, Diagnostic(severity="warn", message=f"hook {name}: {error}"))


class _Asking(HookApi):
    """One pass, as its hooks see it."""

    def __init__(self, input: PassInput, fingerprint: str, seconds: float) -> None:
        self.arguments = input.call.arguments
        self._input = input
        self._fingerprint = fingerprint
        self._memos: dict[str, Any] = {}
        self._box = Box(keys=input.keys)
        self._started, self._began = activity.info().started_time, time.monotonic()
        self._ends = self._began + seconds

    @property
    def told(self) -> HookCall:
        """The call with the arguments of now."""
        call = self._input.call
        return HookCall(
            task_id=self._input.task_id,
            conversation_id=self._input.conversation_id,
            caller=self._input.caller,
            tool=call.tool,
            arguments=dict(self.arguments),
            digest=arguments_digest(call.tool, self.arguments),
        )

    async def call(self, code: Callable[[], Any]) -> tuple[Any, str]:
        """What a hook answers, or why it gave no answer."""
        stop = threading.Event()
        thread = ToolThread(code, stop, "tarry-hook")
        ended = await thread.wait(max(self._ends - time.monotonic(), 0))
        if ended is None:
            await thread.stop(0.1)
            return None, "gave no answer in time"
        if ended.error is not None:
            activity.logger.warning("A hook failed", exc_info=ended.error)
            text = f"failed with {type(ended.error).__name__}: {ended.error}"
            return None, bound_text(text, max_bytes=MAX_REASON).text
        return ended.value, ""

    def replaced(self, name: str, arguments: Any) -> Pass | None:
        """Take other arguments, when they are some."""
        try:
            plain = plain_json(arguments)
        except ValueError as error:
            return self.end("block", reason=f"hook {name} gave arguments that are no JSON: {error}", code="blocked")
        if not isinstance(plain, dict):
            return self.end("block", reason=f"hook {name} gave arguments that are no object", code="blocked")
        self.arguments = plain
        return None

    def end(self, decision: Any, **more: Any) -> Pass:
        """What the pass came to."""
        return Pass(
            decision=decision,
            arguments=self.arguments,
            memos=self._memos,
            fingerprint=self._fingerprint,
            **more,
        )

    def now(self) -> datetime:
        """The server's clock at the start of the pass, moved on by this host's steady one."""
        return self._started + timedelta(seconds=time.monotonic() - self._began)

    async def memo(self, key: str, value: Any) -> Any:
        """Remember for the call."""
        return self.memo_sync(key, value)

    def memo_sync(self, key: str, value: Any) -> Any:
        """Remember for the call."""
        if key in self._input.memos:
            return self._input.memos[key]
        return self._memos.setdefault(key, plain_json(value))

    async def read_signal(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key of the call holds."""
        return self.read_signal_sync(token, key)

    def read_signal_sync(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key of the call holds."""
        state = self._box.state(token.key(key))
        if state.stored is not None:
            return Received(token.read(state.stored.value, state.stored.version), state.stored.at)
        return Expired() if state.expired else None


def _limit(kind: str) -> float:
    return IO_SECONDS if kind == "io" else QUICK_SECONDS
