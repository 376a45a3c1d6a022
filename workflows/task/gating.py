"""The hooks of a call, asked before its intent and told of its result, each time by one activity (spec §5).

The pass to which a value wakes the call is made ahead, by the activity that judges the value. It counts if it is the
very one that would be made when the call is awake: with the same keys, and by hooks that count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import FailureError

from signals.box import Box, BoxFull
from tarry.core import results
from tarry.core.gates import (
    ASK_GATES,
    TELL_RESULT,
    Arrived,
    Judged,
    Pass,
    PassEnd,
    PassInput,
    ResultInput,
    Told,
    keys_digest,
)
from tarry.core.protocol import CallError, ResolvedCall, ToolOutcome
from tarry.core.results import Diagnostic
from tarry.core.task_state import State, ToolCallInput
from tarry.core.waiting import Verdict
from workflows import ends, options
from workflows.supervise import StopSwitch

T = TypeVar("T", bound=BaseModel)


class Gating:
    """Speaks with the hooks for one call."""

    def __init__(self, input: ToolCallInput, state: State, box: Box, stop: StopSwitch) -> None:
        self._call = input.call
        self._settings = input.settings
        self._conversation_id = input.conversation_id
        self._caller = input.generation_id
        self._stop = stop
        self._state = state
        self._box = box
        self._ahead: Judged | None = None

    async def judge(self, arrived: Arrived) -> Sequence[Verdict] | None:
        """Verdicts on what came, with the pass that follows if it wakes the call; None: there are none. A Stop ends it.

        The memos of the pass are kept even if it counts for nothing in the end: its hooks were asked, and may have told
        somebody.
        """
        input = self._input(self._call).model_copy(update={"arrived": arrived})
        try:
            end = await self._run(ASK_GATES, input, PassEnd, until_stop=True)
        except FailureError:
            return None
        match end.root if end is not None else None:
            case Judged() as judged if len(judged.verdicts) == len(arrived.incoming):
                if judged.found is not None and not self._remember(judged.found):
                    self._ahead = judged
                return judged.verdicts
            case Pass() as found:
                self._remember(found)
        return None

    def forget(self) -> None:
        """A pass that was made ahead counts for nothing any more."""
        self._ahead = None

    async def ask(self) -> Pass:
        """One pass over every hook; its memos are kept, first writer wins. A Stop ends it."""
        made = self._made_ahead()
        self._state.reask, self._state.announced = False, ""
        if made is not None:
            self._keep(made)
            return made
        try:
            found = await self._run(ASK_GATES, self._input(self._call), Pass, until_stop=True)
        except FailureError as error:
            return Pass(
                decision="block", reason=f"its hooks could not be asked: {error.cause or error}", code="blocked"
            )
        if found is None:
            return Pass(decision="block", reason="its hooks left no answer that can be read", code="blocked")
        if found.decision == "not_here":
            return found
        self._keep(found)
        if problem := self._remember(found):
            return Pass(decision="block", reason=f"task_full: {problem}", code="blocked")
        return found

    def _made_ahead(self) -> Pass | None:
        """The pass that was made ahead, if it is the one that would be made now; it is taken once."""
        judged, self._ahead = self._ahead, None
        if judged is None or judged.found is None or judged.found.decision == "not_here":
            return None
        # Whoever was asked may not be of the registry that was announced since.
        counts = self._state.announced in ("", judged.found.fingerprint)
        return judged.found if counts and judged.keys == keys_digest(self._box.keys) else None

    def _remember(self, found: Pass) -> str:
        """Keep the memos of a pass; why not, where that is impossible."""
        try:
            for key, value in found.memos.items():
                self._box.memo(key, value)
        except (BoxFull, ValueError) as error:
            return str(error)
        return ""

    def _keep(self, found: Pass) -> None:
        state = self._state
        state.asked_under, state.arguments = found.fingerprint, found.arguments
        state.heard, state.remarks = found.heard, found.remarks
        # It was announced while the pass ran: whoever was asked may not have been of it.
        state.reask = found.decision == "sleep" and state.announced not in ("", found.fingerprint)

    async def tell(self, outcome: ToolOutcome, *, ran: bool) -> ToolOutcome:
        """Let the hooks hear of a result; without them, as it is. A Stop does not end it: they hear of all results."""
        outcome = results.with_remarks(outcome, self._state.remarks)
        heard = self._state.heard or self._call.heard
        if not heard:
            return outcome
        asked = self._input(self._call.model_copy(update={"arguments": self._arguments}))
        input = ResultInput(asked=asked, outcome=outcome, ran=ran)
        try:
            told = await self._run(TELL_RESULT, input, Told)
        except FailureError as error:
            text = f"its hooks could not be told of this result: {error.cause or error}"
            return results.with_remarks(outcome, [Diagnostic(severity="warn", message=text)])
        if told is None:
            text = "its hooks heard of this result, and left no answer that can be read"
            return results.with_remarks(outcome, [Diagnostic(severity="warn", message=text)])
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
            agent=self._settings.chosen,
            keys=self._box.keys,
            memos=self._box.memos,
        )

    async def _run(self, name: str, input: Any, as_type: type[T], *, until_stop: bool = False) -> T | None:
        # Not a local activity: when a query meets one in its workflow task, its result comes to the code after a Stop
        # of the next task, and before it on replay.
        left = self._stop.deadline() - workflow.now() if self._stop.is_set else None
        config = options.call_hooks(self._settings, within=left)
        asked = workflow.start_activity(name, input, result_type=RawValue, **config)
        return ends.read(await (self._stop.watch(asked) if until_stop else asked), as_type)


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
