"""The children of running code: nested calls and durable tasks, created once for each key and awaited (spec §4.9)."""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from temporalio import activity
from temporalio.client import Client, WorkflowFailureError

from activities.task.asking import call_of, child_end, start_update
from tarry.api import ChildTask, NestedCall, NestedResult
from tarry.app import Registry
from tarry.core import results
from tarry.core.messages import AssistantMessage, ToolCallRequest
from tarry.core.protocol import ResolvedCall, ToolOutcome, ToolRunInput, digest
from tarry.core.resolve import HookKind, resolve_calls
from tarry.core.task_state import TaskOutcome
from tarry.core.text import canonical_json
from tarry.core.waiting import CREATE_CHILD, ChildKind, CreateChild, ParkRequest
from tarry.redaction import show_calls
from tarry.tasks import DurableTask, Outcome

R = TypeVar("R")
AtHome = Callable[[Callable[[], "asyncio.Task[Any]"]], "Future[Any]"]
"""Starts work on the worker's loop, given up when the run is."""

PATIENCE = 60.0
"""Seconds for which replay-safe code holds its activity while it awaits a child."""


class MustPark(BaseException):
    """Unwinds replay-safe code that awaits a child for long: its task parks, and the code is run again.

    No `Exception`, so that no `except Exception` of the application takes it for its own.
    """

    def __init__(self) -> None:
        super().__init__("this run makes room until the call that it awaits has ended")


class Nesting:
    """Creates and awaits for one run. `may_park`: the code may be run again from its beginning.

    `park`: for which the code was unwound, whatever it made of that: a task group hides it in a group, and a gather
    may give it back as a value.
    """

    def __init__(
        self, client: Client, input: ToolRunInput, registry: Registry, at_home: AtHome, *, may_park: bool
    ) -> None:
        self._client = client
        self._input = input
        self._tools = registry.tools
        self._gated: HookKind = registry.gated
        self._heard: HookKind = registry.heard
        self._redact = registry.redact
        self._at_home = at_home
        self._may_park = may_park
        self._call = call_of(client, input)
        self._attempt = activity.info().attempt
        self._positions = itertools.count(1)
        self.park: ParkRequest | None = None

    def start_task(self, task: DurableTask[Any, R], input: Any, key: str) -> Future[ChildTask[R]]:
        """Create a durable task; raises as `ToolApi.create_task`."""
        (call,) = show_calls(self._redact, [task.call(input)])
        return self._at_home(lambda: asyncio.create_task(self._created(call, key, task)))

    def start_tool(self, name: str, arguments: Mapping[str, Any], key: str | None) -> Future[NestedCall]:
        """Start a nested call, or answer one that cannot run; raises as `ToolApi.execute_tool`."""
        key = self._key(key)
        request = ToolCallRequest(call_id=key[:100], name=name, arguments=_encoded(arguments))
        resolved = resolve_calls(AssistantMessage(calls=(request,)), self._tools, self._gated, self._heard)
        (call,) = show_calls(self._redact, resolved)
        return self._at_home(lambda: asyncio.create_task(self._started(call, key)))

    def _key(self, key: str | None) -> str:
        if key is not None:
            return key
        if self._input.wake is not None:
            raise ValueError("this task has waited: give the call a key, since its position means another call now")
        return f"#{self._input.first_run}.{next(self._positions)}"

    async def _created(self, call: ResolvedCall, key: str, task: DurableTask[Any, R]) -> ChildTask[R]:
        return _Task(await self._create("task", call, key), task, self)

    async def _started(self, call: ResolvedCall, key: str) -> NestedCall:
        if call.error is not None:
            return _Answered(_nested("", results.refusal(call.error)))
        return _Call(await self._create("call", call, key), self)

    async def _create(self, kind: ChildKind, call: ResolvedCall, key: str) -> str:
        wanted = CreateChild(key=key, kind=kind, call=call, run=self._input.run, attempt=self._attempt)
        # By content too: the server answers a repeated request id with the first answer, unasked.
        request = f"create-{digest(canonical_json([wanted.model_dump(mode='json')]))}"
        task_id: str = await start_update(self._call, CREATE_CHILD, wanted, request)
        return task_id

    def outcome(self, task_id: str) -> Future[Any]:
        """The outcome of a child as JSON data, None when it left none.

        Raises:
            MustPark: it takes long.
        """
        return self._at_home(lambda: asyncio.create_task(self._awaited(task_id)))

    async def _awaited(self, task_id: str) -> Any:
        known = await child_end(self._call, task_id)
        if known.is_over and not known.elsewhere:
            return known.outcome
        handle = self._client.get_workflow_handle(task_id)
        try:
            async with asyncio.timeout(PATIENCE if self._may_park else None):
                return await handle.result()
        except WorkflowFailureError:
            return None
        except TimeoutError:
            self.park = ParkRequest(kind="park", on=(task_id,), resume=True)
            raise MustPark from None


@dataclass(frozen=True)
class _Call:
    task_id: str
    _nesting: Nesting

    async def result(self) -> NestedResult:
        return self._read(await asyncio.wrap_future(self._nesting.outcome(self.task_id)))

    def result_sync(self) -> NestedResult:
        return self._read(self._nesting.outcome(self.task_id).result())

    def _read(self, outcome: Any) -> NestedResult:
        found = results.aborted("of a nested call") if outcome is None else ToolOutcome.model_validate(outcome)
        return _nested(self.task_id, found)


@dataclass(frozen=True)
class _Answered:
    """A call that was answered without being run."""

    _result: NestedResult

    @property
    def task_id(self) -> str:
        return self._result.task_id

    async def result(self) -> NestedResult:
        return self._result

    def result_sync(self) -> NestedResult:
        return self._result


@dataclass(frozen=True)
class _Task(Generic[R]):
    task_id: str
    _task: DurableTask[Any, R]
    _nesting: Nesting

    async def outcome(self) -> Outcome[R]:
        return self._read(await asyncio.wrap_future(self._nesting.outcome(self.task_id)))

    def outcome_sync(self) -> Outcome[R]:
        return self._read(self._nesting.outcome(self.task_id).result())

    def _read(self, outcome: Any) -> Outcome[R]:
        if outcome is None:
            return Outcome("failed", None, "it was terminated, and left no outcome")
        ended = TaskOutcome.model_validate(outcome)
        return self._task.read_outcome(ended.status, ended.result, ended.error)


def _nested(task_id: str, outcome: ToolOutcome) -> NestedResult:
    return NestedResult(
        task_id=task_id,
        text=outcome.text,
        is_error=outcome.is_error,
        code=outcome.code,
        structured=outcome.structured,
        details=outcome.facts.details,
    )


def _encoded(arguments: Mapping[str, Any]) -> str:
    return json.dumps(results.plain_json(dict(arguments)))
