"""The hooks of a call, asked and told by local activities: before its intent, and of its result (spec §5)."""

from __future__ import annotations

from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError

from signals.box import Box, BoxFull
from tarry.core import results
from tarry.core.gates import ASK_GATES, TELL_RESULT, Pass, PassInput, ResultInput, Told
from tarry.core.protocol import CallError, ResolvedCall, ToolOutcome
from tarry.core.resolve import HookKind
from tarry.core.task_state import State
from workflows import options

T = TypeVar("T")


class Gating:
    """Speaks with the hooks for one call."""

    def __init__(self, call: ResolvedCall, conversation_id: str, caller: str, state: State, box: Box) -> None:
        self._call = call
        self._conversation_id = conversation_id
        self._caller = caller
        self._state = state
        self._box = box

    async def ask(self) -> Pass:
        """One pass over every hook; its memos are kept, first writer wins."""
        self._state.reask = False
        try:
            found = await self._run(ASK_GATES, self._input(self._call), Pass, self._call.gated)
        except ActivityError as error:
            return Pass(
                decision="block", reason=f"its hooks could not be asked: {error.cause or error}", code="blocked"
            )
        try:
            for key, value in found.memos.items():
                self._box.memo(key, value)
        except BoxFull as error:
            return Pass(decision="block", reason=f"task_full: {error}", code="blocked")
        self._state.asked_under, self._state.arguments = found.fingerprint, found.arguments
        return found

    async def tell(self, outcome: ToolOutcome) -> ToolOutcome:
        """Let the hooks hear of a result; without them, as it is."""
        if not self._call.heard:
            return outcome
        asked = self._input(self._call.model_copy(update={"arguments": self._arguments}))
        try:
            told = await self._run(TELL_RESULT, ResultInput(asked=asked, outcome=outcome), Told, self._call.heard)
        except ActivityError:
            return outcome
        return told.outcome

    @property
    def _arguments(self) -> dict[str, Any]:
        return self._call.arguments if self._state.arguments is None else self._state.arguments

    def _input(self, call: ResolvedCall) -> PassInput:
        return PassInput(
            task_id=workflow.info().workflow_id,
            conversation_id=self._conversation_id,
            caller=self._caller,
            call=call,
            keys=self._box.keys,
            memos=self._box.memos,
        )

    async def _run(self, name: str, input: Any, as_type: type[T], kind: HookKind) -> T:
        if kind == "quick":
            try:
                quick: T = await workflow.execute_local_activity(name, input, result_type=as_type, **options.LOOKUP)
            except ActivityError:
                pass
            else:
                return quick
        slow: T = await workflow.execute_activity(name, input, result_type=as_type, **options.HOOKS)
        return slow


def refusal(tool: str, found: Pass) -> ToolOutcome:
    """The result of a call that its hooks did not let run."""
    if found.decision == "not_here":
        return results.not_here(tool)
    match found.code:
        case "invalid_arguments":
            return results.refusal(CallError(code="invalid_arguments", text=found.reason))
        case "invalid_park" | "":
            return results.invalid_park(tool, found.reason)
        case code:
            return results.blocked(tool, code, found.reason, found.by)
