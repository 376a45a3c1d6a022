"""`tarry.ask-gates` and `tarry.tell-result`: the hooks of a call, asked in order (spec §5).

Each has a thread of its own and shares one time limit with the others; one that raises or does not answer blocks.
"""

from __future__ import annotations

import copy
import time
from datetime import timedelta
from functools import partial
from typing import Any, get_args

from temporalio import activity
from temporalio.client import Client

from activities.heartbeat import Heartbeat
from activities.hooks.hook_api import Asking
from activities.task import judging
from activities.task.documents import DeclaredDocuments
from signals.box import Box
from signals.parking import InvalidPark, Sleep, park
from tarry.app import Registry
from tarry.client.documents import DocumentReader
from tarry.core import results
from tarry.core.arguments import BadArguments, parameters_text, settle_arguments
from tarry.core.gates import (
    ASK_GATES,
    TELL_RESULT,
    Arrived,
    Judged,
    Pass,
    PassInput,
    ResultInput,
    Told,
    deadline_memo,
    keys_digest,
    woken,
)
from tarry.core.protocol import Progress, ToolOutcome
from tarry.core.resolve import HookKind
from tarry.core.results import Diagnostic
from tarry.core.text import bound_text, clean_text
from tarry.core.waiting import ParkRequest
from tarry.hooks import BeforeTool, Block, BlockCode, CallResult, Replace
from tarry.redaction import show_ask
from tarry.tools import Tool, ToolResult

QUICK_SECONDS = 4.0
IO_SECONDS = 55.0
"""How long all hooks that are asked at once may take together."""
MAX_ROUNDS = 5
"""How often a hook may come to see other arguments than those that it let pass, in one pass."""
MAX_REASON = 2 * 1024
MAX_BY = 200


class GateActivities:
    """Asks the hooks of `registry`, of those extensions that the conversation has selected."""

    def __init__(self, registry: Registry, client: Client) -> None:
        self._registry = registry
        self._documents = DeclaredDocuments(registry, DocumentReader(client))

    @activity.defn(name=ASK_GATES)
    async def ask(self, input: PassInput) -> Pass | Judged:
        """One pass from the first hook; the first block or sleep ends it. Tells of a tool this worker lacks.

        What has arrived is judged first, and the pass is made with it, if it wakes the call.
        """
        began = time.monotonic()
        async with Heartbeat(Progress):
            if input.arrived is None:
                return await self._asked(input, began)
            return await self._judged(input, input.arrived, began)

    async def _judged(self, input: PassInput, arrived: Arrived, began: float) -> Judged:
        came = (one.delivery for one in arrived.incoming)
        verdicts = await judging.verdicts(self._registry.signals, came)
        awake = woken(input, arrived, verdicts)
        if awake is None:
            return Judged(verdicts=verdicts)
        return Judged(verdicts=verdicts, found=await self._asked(awake, began), keys=keys_digest(awake.keys))

    async def _asked(self, input: PassInput, began: float) -> Pass:
        registry = self._registry.chosen(input.agent)
        tool = registry.tools.get(input.call.tool)
        if tool is None:
            return Pass(decision="not_here")
        return await self._pass(registry, Asking(input, self._documents, limit(registry.gated), began), tool)

    async def _pass(self, registry: Registry, asking: Asking, tool: Tool) -> Pass:
        """Arguments are settled before the first hook sees them, and whenever one replaced them: what runs was seen.

        A hook that let others pass than those that a later one made of them is asked again, about these; one that made
        some itself, when a hook that was asked again made others of them.
        """
        problem = _settle(asking, tool)
        hooks = [(name, one.before_tool) for name, one in registry.hooks if one.before_tool is not None]
        passed: list[tuple[str, BeforeTool, dict[str, Any] | None]] = []
        left = [] if problem else hooks
        for _ in range(MAX_ROUNDS):
            for name, hook in left:
                told = asking.told
                answer, failure = await asking.call(partial(hook, told, asking), asking.left)
                if isinstance(answer, Replace) and not (failure := asking.replace(answer.arguments)):
                    problem = _settle(asking, tool)
                    passed.append((name, hook, None))
                elif failure or answer is not None:
                    return self._ended(asking, name, answer, failure)
                else:
                    passed.append((name, hook, asking.arguments))
            passed = [(name, hook, asking.arguments if seen is None else seen) for name, hook, seen in passed]
            left = [] if problem else [(name, hook) for name, hook, seen in passed if seen != asking.arguments]
            passed = [one for one in passed if one[2] == asking.arguments]
        return self._agreed(asking, problem, [name for name, _ in left])

    def _agreed(self, asking: Asking, problem: str, against: list[str]) -> Pass:
        """The pass that no hook ended."""
        if problem:
            return self._end(asking, "error", reason=problem, code="invalid_arguments")
        if against:
            reason = f"its hooks never agreed on its arguments: {', '.join(against)} saw others than would run"
            return self._end(asking, "block", reason=bound_text(reason, max_bytes=MAX_REASON).text, code="blocked")
        return self._end(asking, "run")

    def _ended(self, asking: Asking, name: str, answer: Any, failure: str) -> Pass:
        """The pass, by the answer that ended it."""
        match answer:
            case Block() if not failure:
                return self._block(asking, answer)
            case Sleep() if not failure:
                return self._sleep(asking, name, answer)
        reason = f"hook {name} {failure or f'returned a {type(answer).__name__}'}"
        return self._end(asking, "block", reason=bound_text(reason, max_bytes=MAX_REASON).text, code="blocked")

    def _block(self, asking: Asking, block: Block) -> Pass:
        reason = bound_text(str(block.reason), max_bytes=MAX_REASON).text
        code = block.code if block.code in get_args(BlockCode) else "blocked"
        return self._end(asking, "block", reason=reason, code=code, by=clean_text(str(block.by))[:MAX_BY])

    def _sleep(self, asking: Asking, name: str, sleep: Sleep) -> Pass:
        try:
            found = park(sleep, Box(), asking.now())
            if unknown := next((key for key in found.keys if key.signal not in self._registry.signals), None):
                raise InvalidPark(f"no signal is named {unknown.signal!r}; declare it in the extension's signals")
        except InvalidPark as error:
            return self._end(asking, "error", reason=f"{error} (hook {name})", code="invalid_park")
        until = found.until
        if until is not None and found.keys and isinstance(sleep.until, timedelta):
            until = asking.fixed(deadline_memo(found.keys), until)
        ask = show_ask(self._registry.redact, found.ask, asking.tool)
        return self._end(asking, "sleep", park=ParkRequest(kind="park", until=until, keys=found.keys, ask=ask))

    def _end(self, asking: Asking, decision: Any, **more: Any) -> Pass:
        """What the pass came to."""
        return Pass(
            decision=decision,
            arguments=asking.arguments,
            memos=asking.memos,
            remarks=asking.remarks,
            fingerprint=self._registry.fingerprint,
            heard=self._registry.heard,
            **more,
        )

    @activity.defn(name=TELL_RESULT)
    async def tell(self, input: ResultInput) -> Told:
        """The result after every hook heard of it; one that fails leaves it as it is, with a remark."""
        outcome = input.outcome
        registry = self._registry.chosen(input.asked.agent)
        hooks = [(name, one.after_tool) for name, one in registry.hooks if one.after_tool is not None]
        async with Heartbeat(Progress):
            asking = Asking(input.asked, self._documents, limit(registry.heard))
            for place, (name, hook) in enumerate(hooks):
                # A share of what is left for each: one that hangs keeps no other from being told.
                seconds = asking.left / (len(hooks) - place)
                told = _told(outcome, ran=input.ran)
                answer, problem = await asking.call(partial(hook, asking.told, told, asking), seconds)
                outcome = _heard(outcome, name, answer, problem)
        return Told(outcome=results.with_remarks(outcome, asking.remarks))


def _told(outcome: ToolOutcome, *, ran: bool) -> CallResult:
    return CallResult(
        text=outcome.text,
        is_error=outcome.is_error,
        code=outcome.code,
        details=copy.deepcopy(outcome.facts.details),
        ran=ran,
    )


def _heard(outcome: ToolOutcome, name: str, answer: Any, problem: str) -> ToolOutcome:
    """The outcome after a hook's answer."""
    if not problem and answer is None:
        return outcome
    if not problem and isinstance(answer, ToolResult):
        try:
            return results.replaced(outcome, answer.content, is_error=answer.is_error, details=answer.details)
        except results.Unencodable as error:
            problem = f"returned what cannot be encoded: {error}"
    problem = problem or f"returned a {type(answer).__name__}"
    activity.logger.warning("after_tool of %s %s", name, problem)
    return results.with_remarks(outcome, [Diagnostic(severity="warn", message=f"hook {name} {problem}")])


def _settle(asking: Asking, tool: Tool) -> str:
    """Give the arguments the form in which they run, when they fit; else why they do not."""
    try:
        asking.arguments = settle_arguments(asking.arguments, tool.parameters)
    except BadArguments as error:
        return results.invalid_arguments_text(tool.name, error.text, parameters_text(tool.parameters))
    return ""


def limit(kind: HookKind) -> float:
    """The seconds that hooks of this kind have together."""
    return IO_SECONDS if kind == "io" else QUICK_SECONDS
