"""A response's calls, each with what the registry says of its tool now: the last look before history.

Pure. What is decided here enters history with the response, so that no deploy changes it (spec §1.4).
A call that must not run becomes an error result and takes nothing else down with it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Literal, Protocol

from pydantic import BaseModel

from tarry.core.arguments import BadArguments, parameters_text, parse_arguments, settle_arguments
from tarry.core.messages import CUTTING_STOPS, AssistantMessage, ToolCallRequest
from tarry.core.protocol import CallError, ResolvedCall
from tarry.core.results import cut_off_text, invalid_arguments_text, too_many_text, unknown_tool_text

MAX_CALLS = 64
"""The calls of one response that are run."""


HookKind = Literal["", "quick", "io"]
"""None, those that do no IO, or those that do."""


class DeclaredTool(Protocol):
    """What is asked of a tool here; `tarry.tools.Tool` is one."""

    @property
    def parameters(self) -> type[BaseModel]:
        """What its arguments are validated by."""
        ...

    @property
    def replay(self) -> Literal["unsafe", "safe"]:
        """Whether a run cut off by a lost worker may be run again."""
        ...

    @property
    def timeout(self) -> timedelta:
        """The longest one run may take."""
        ...

    @property
    def sequential(self) -> bool:
        """Whether it runs alone in its round."""
        ...

    @property
    def hears_steers(self) -> bool:
        """Whether it is told of steers while it is open."""
        ...

    @property
    def reconcile(self) -> object | None:
        """What can tell whether a cut-off run took effect, if anything can."""
        ...

    @property
    def worker(self) -> str:
        """Which worker runs its code; empty: the default one."""
        ...

    @property
    def cancel(self) -> object | None:
        """What cleans up after a call that has parked, if anything does."""
        ...

    @property
    def cancel_always(self) -> bool:
        """Whether that cleans up after any call that is stopped."""
        ...


def resolve_calls(
    message: AssistantMessage, tools: Mapping[str, DeclaredTool], gated: HookKind = "", heard: HookKind = ""
) -> tuple[ResolvedCall, ...]:
    """Resolve every call of `message`, in order. None is left out: what cannot run carries its error.

    `gated` and `heard` say which hooks there are.

    Of a response that was cut off no call runs, since what looks complete may not be (spec §6.4).
    """
    hooks: dict[str, Any] = {"gated": gated, "heard": heard}
    resolved = (_resolve(call, place, message, tools) for place, call in enumerate(message.calls))
    return tuple(call.model_copy(update=hooks) for call in resolved)


def _resolve(
    call: ToolCallRequest, place: int, message: AssistantMessage, tools: Mapping[str, DeclaredTool]
) -> ResolvedCall:
    if message.stop in CUTTING_STOPS:
        return _refused(call, CallError(code="cut_off", text=cut_off_text()))
    if place >= MAX_CALLS:
        return _refused(call, CallError(code="too_many_calls", text=too_many_text(MAX_CALLS)))
    tool = tools.get(call.name)
    if tool is None:
        return _refused(call, CallError(code="tool_unavailable", text=unknown_tool_text(call.name, tools)))
    try:
        arguments = settle_arguments(parse_arguments(call.arguments), tool.parameters)
    except BadArguments as error:
        text = invalid_arguments_text(call.name, error.text, parameters_text(tool.parameters))
        return _refused(call, CallError(code="invalid_arguments", text=text))
    return ResolvedCall(
        call_id=call.call_id,
        tool=call.name,
        arguments=arguments,
        replay=tool.replay,
        sequential=tool.sequential,
        reconciles=tool.reconcile is not None,
        cancels="never" if tool.cancel is None else "always" if tool.cancel_always else "parked",
        timeout=tool.timeout.total_seconds(),
        hears_steers=tool.hears_steers,
        worker=tool.worker,
    )


def _refused(call: ToolCallRequest, error: CallError) -> ResolvedCall:
    return ResolvedCall(call_id=call.call_id, tool=call.name, error=error)
