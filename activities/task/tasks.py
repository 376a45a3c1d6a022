"""`tarry.task-run` and `tarry.task-clean-up`: a phase of a durable task, run as a tool's code is.

The task's checkpoint names its phase; here it becomes a tool for one run: the phase's function, its input as
arguments, its own part of the checkpoint as `api.checkpoint`.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from temporalio import activity

from activities.task.tools import ToolActivities
from signals.data import json_size
from signals.parking import MAX_PARK_BYTES, Sleep, Wait
from tarry.core.messages import Frozen
from tarry.core.protocol import ToolOutcome, ToolRunInput
from tarry.core.waiting import TASK_CLEAN_UP, TASK_RUN, CleanedUp, ParkRequest, StepRequest
from tarry.tasks import DurableTask, Go
from tarry.tools import Tool, ToolResult

MAX_RESULT_BYTES = 64 * 1024
"""Of a task's result, as JSON."""


class Position(Frozen):
    """The checkpoint of a durable task: its phase, what that reads, and the version both were written in."""

    phase: str
    data: Any = None
    version: int = 1


class TaskActivities:
    """Runs the phases of `tasks`, as `code` runs tools."""

    def __init__(self, tasks: dict[str, DurableTask[Any, Any]], code: ToolActivities) -> None:
        self._tasks = tasks
        self._code = code

    @activity.defn(name=TASK_RUN)
    async def run(self, input: ToolRunInput) -> ToolOutcome | ParkRequest | StepRequest:
        """Run the phase that the checkpoint names.

        A task or phase that this worker lacks is `not_here` (spec §1.4), and one that another worker has (spec §25.2).

        Raises:
            ApplicationError: as a tool's run.
        """
        task = self._tasks.get(input.call.tool)
        if task is None:
            return self._code.not_here(input)
        if not self._code.is_at_home(task.worker):
            return self._code.not_here(input, task.worker)
        told, missing = _told(input), list[str]()
        is_today = task.migrate is None or told.version >= task.version
        if is_today and told.phase not in task.phases:
            return self._code.not_here(input)
        end = await self._code.execute(_tool(task, partial(_run, task, told, missing)), _narrowed(input, told))
        return self._code.not_here(input) if missing else end

    @activity.defn(name=TASK_CLEAN_UP)
    async def clean_up(self, input: ToolRunInput) -> CleanedUp:
        """Run the task's abort handler to its end.

        Raises:
            ApplicationError: as a tool's clean-up.
        """
        task, told = self._tasks.get(input.call.tool), _told(input)
        tool = None
        if task is not None and task.on_abort is not None:
            tool = replace(_tool(task, _nothing), cancel=partial(_abort, task, task.on_abort, told))
        return await self._code.clean_up_with(tool, _narrowed(input, told))


def _told(input: ToolRunInput) -> Position:
    """Where the task stands, in the phases of the version that said so."""
    told = input.checkpoint if input.checkpoint is not None else input.call.arguments
    return Position(phase=told["phase"], data=told.get("data"), version=told["version"])


def _migrated(task: DurableTask[Any, Any], told: Position, api: Any) -> Position:
    """Where it stands in the phases of today, which `api` tells. It is code of the application: only for its thread."""
    if task.migrate is None or told.version >= task.version:
        return told
    phase, data = task.migrate(told.phase, told.data, told.version)
    api.stand_at(data)
    return Position(phase=phase, data=data, version=task.version)


def _run(task: DurableTask[Any, Any], told: Position, missing: list[str], input: Any, api: Any) -> Any:
    position = _migrated(task, told, api)
    phase = task.phases.get(position.phase)
    if phase is None:
        missing.append(position.phase)
        return None
    return _converted(task, position, _called(phase, input, api))


def _abort(task: DurableTask[Any, Any], handler: Callable[..., Any], told: Position, input: Any, api: Any) -> Any:
    _migrated(task, told, api)
    return _called(handler, input, api)


def _narrowed(input: ToolRunInput, position: Position) -> ToolRunInput:
    call = input.call.model_copy(update={"arguments": {"input": input.call.arguments["input"]}})
    return input.model_copy(update={"call": call, "checkpoint": position.data})


def _tool(task: DurableTask[Any, Any], function: Callable[..., Any]) -> Tool:
    return Tool(
        name=task.name,
        description="",
        parameters=task.parameters,
        function=function,
        replay="safe",
        timeout=task.timeout,
        takes_api=True,
    )


def _nothing(input: Any, api: Any) -> None: ...


def _called(function: Callable[..., Any], input: Any, api: Any) -> Any:
    offered = (input, api)
    return function(*offered[: len(inspect.signature(function).parameters)])


def _converted(task: DurableTask[Any, Any], position: Position, value: Any) -> Any:
    if inspect.isawaitable(value):
        return _awaited(task, position, value)
    match value:
        case Sleep() | Wait():
            return replace(value, checkpoint=_stored(task, position, value.checkpoint))
        case Go():
            return StepRequest(kind="step", checkpoint=_stored(task, position, value))
        case _:
            return ToolResult("", details=_result(task, value))


async def _awaited(task: DurableTask[Any, Any], position: Position, value: Awaitable[Any]) -> Any:
    return _converted(task, position, await value)


def _stored(task: DurableTask[Any, Any], position: Position, checkpoint: Any) -> dict[str, Any]:
    """The checkpoint as it is kept; one without a `Go` is for the same phase.

    Raises:
        ValueError: there is no such phase, or it is no JSON data, or too large.
    """
    go = checkpoint if isinstance(checkpoint, Go) else Go(position.phase, checkpoint)
    if go.phase not in task.phases:
        raise ValueError(f"task {task.name} has no phase {go.phase!r}; it has {', '.join(task.phases)}")
    kept = Position(phase=go.phase, data=go.checkpoint, version=task.version).model_dump()
    if (size := json_size(kept)) > MAX_PARK_BYTES:
        raise ValueError(f"the checkpoint has {size} bytes, {MAX_PARK_BYTES} are allowed")
    return kept


def _result(task: DurableTask[Any, Any], value: Any) -> Any:
    data = task.dump_result(value)
    task.read_result(data)
    if (size := json_size(data)) > MAX_RESULT_BYTES:
        raise ValueError(f"the result has {size} bytes, {MAX_RESULT_BYTES} are allowed; keep it in a store of your own")
    return data
