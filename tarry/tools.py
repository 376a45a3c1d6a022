"""Authoring tools: `@tool`, and what a tool returns.

A tool is an ordinary function, sync or async, with typed parameters. The JSON Schema that the model
sees and the validation of its arguments both come from the signature. It returns a result, or a `Sleep`
to park until the world answers; then it runs again, with `api.wake` set (spec §4.2).
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, TypeAdapter, create_model

from tarry.core.routing import checked_worker
from tarry.core.text import MAX_MODEL_BYTES

Replay = Literal["unsafe", "safe"]
"""Whether a run cut off by a lost worker may be run again (spec §4.3)."""

API_PARAMETER = "api"


@dataclass(frozen=True)
class ToolResult:
    """What a tool tells the model.

    `content` is text or JSON data; it is bounded before the model sees it (spec §4.11). `details` is
    JSON data for programs and people and is never sent to the model. `structured` is what a program that
    calls the tool reads, when the tool declares an output; by default the content. `handoff` ends the run, as
    done, after the round of this call: the next run reads nothing of what came before, only this text, if it
    is not empty. Of several in a round the last one in call order counts; of a nested call none (spec §6.6).
    `keep` says which end of a content that is too long the model reads; the whole is kept in the store.
    """

    content: Any
    is_error: bool = False
    details: Any = None
    structured: Any = None
    handoff: str | None = None
    keep: Literal["head", "tail"] = "head"


class RetryTool(Exception):
    """Raised by a replay-safe tool to be run again, at most five more times, after a pause.

    From an unsafe tool, or once the attempts are used up, it is an ordinary error result.
    """


ToolFunction = Callable[..., Any]
Reconcile = Callable[..., Awaitable[ToolResult | str | None] | ToolResult | str | None]
Cancel = Callable[..., Awaitable[None] | None]


@dataclass(frozen=True)
class Tool:
    """A tool as declared. Build it with `@tool`."""

    name: str
    description: str
    parameters: type[BaseModel]
    function: ToolFunction
    replay: Replay = "unsafe"
    timeout: timedelta = timedelta(hours=1)
    sequential: bool = False
    reconcile: Reconcile | None = None
    cancel: Cancel | None = None
    cancel_always: bool = False
    output: TypeAdapter[Any] | None = None
    takes_api: bool = False
    hears_steers: bool = False
    result_bytes: int = MAX_MODEL_BYTES
    worker: str = ""

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the parameters, as the model is given it; a copy of its own for each who asks."""
        return copy.deepcopy(self._schema)

    @functools.cached_property
    def _schema(self) -> dict[str, Any]:
        # Every model request tells of every tool, and pydantic makes a schema anew each time.
        return self.parameters.model_json_schema()

    def call_arguments(self, arguments: BaseModel) -> dict[str, Any]:
        """The keyword arguments for `function`, as typed values."""
        return {name: getattr(arguments, name) for name in type(arguments).model_fields}


@overload
def tool(function: ToolFunction, /) -> Tool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Replay = "unsafe",
    timeout: timedelta = timedelta(hours=1),
    sequential: bool = False,
    reconcile: Reconcile | None = None,
    cancel: Cancel | None = None,
    cancel_always: bool = False,
    output: Any = None,
    hears_steers: bool = False,
    result_bytes: int = MAX_MODEL_BYTES,
    worker: str = "",
) -> Callable[[ToolFunction], Tool]: ...
def tool(
    function: ToolFunction | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    replay: Replay = "unsafe",
    timeout: timedelta = timedelta(hours=1),
    sequential: bool = False,
    reconcile: Reconcile | None = None,
    cancel: Cancel | None = None,
    cancel_always: bool = False,
    output: Any = None,
    hears_steers: bool = False,
    result_bytes: int = MAX_MODEL_BYTES,
    worker: str = "",
) -> Tool | Callable[[ToolFunction], Tool]:
    """Declare a function as a tool.

    Args:
        name: as the model calls it; the function's name by default.
        description: for the model; the docstring by default.
        replay: `unsafe` runs at most once and a cut-off run is reported as `interrupted`; `safe` is run
            again with the same arguments and idempotency key (spec §4.3).
        timeout: of one run, never of a park; then the model gets an error result.
        sequential: a round that holds such a call runs its calls one at a time.
        reconcile: asked before a cut-off run is reported or repeated, with the call's arguments and
            `api`: a result means "it happened", None means "not known".
        cancel: cleans up the outside work of a call that has parked, when none of its code runs: stopped
            while parked, stopped after a wake, or a woken unsafe run that was cut off. Takes the call's
            arguments and `api`, as far as it names them; must be idempotent, is tried again when it
            raises (spec §4.8).
        cancel_always: it runs after every Stop, also of a call that has not parked: for what a run begins outside.
        output: the type of what programs that call the tool read; a result that does not fit it is an error
            to them. Without one they read the result's text.
        hears_steers: while the call is open, a steer that is queued is told to it: the key `STEER_KEY` of
            `STEERED` is delivered, so that a long wait can make room (spec §6.7).
        result_bytes: how much of a result the model reads: 50 KiB and 2,000 lines by default, all lines of
            any other number of bytes.
        worker: the name of the worker that runs its code, its hooks `reconcile` and `cancel` too; by default the
            extension's, else the one that runs everything (spec §25.1).

    Raises:
        TypeError: a parameter has no annotation, or is positional-only or variadic.
        ValueError: no worker can be called so.
    """

    def declare(function: ToolFunction) -> Tool:
        tool_name = name or function.__name__
        return Tool(
            name=tool_name,
            description=description if description is not None else inspect.getdoc(function) or "",
            parameters=_parameters_model(tool_name, function),
            function=function,
            replay=replay,
            timeout=timeout,
            sequential=sequential,
            reconcile=reconcile,
            cancel=cancel,
            cancel_always=cancel_always,
            output=TypeAdapter(output) if output is not None else None,
            takes_api=API_PARAMETER in inspect.signature(function).parameters,
            hears_steers=hears_steers,
            result_bytes=result_bytes,
            worker=checked_worker(worker, f"tool {tool_name}"),
        )

    return declare(function) if function is not None else declare


def _parameters_model(tool_name: str, function: ToolFunction) -> type[BaseModel]:
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {}
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name == API_PARAMETER:
            continue
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise TypeError(f"tool {tool_name}: parameter {parameter.name} must be passable by keyword")
        if parameter.name not in hints:
            raise TypeError(f"tool {tool_name}: annotate parameter {parameter.name}, the model needs its type")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (hints[parameter.name], default)
    return create_model(tool_name, __config__=ConfigDict(extra="forbid"), **fields)
