"""The tasks and nested calls that running code may start as its own children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeVar, overload

from tarry.tasks import DurableTask, Outcome

In = TypeVar("In")
R = TypeVar("R")


@dataclass(frozen=True)
class NestedResult:
    """What a nested call gave. `structured` is for programs: what the tool declares as its output, else its text."""

    task_id: str
    text: str
    is_error: bool = False
    code: str = ""
    structured: Any = None
    details: Any = None


class NestedCall(Protocol):
    """A nested call that was started. A `Wait` is on its `task_id`."""

    @property
    def task_id(self) -> str:
        """Its id."""
        ...

    async def result(self) -> NestedResult:
        """Its result, waited for as `execute_tool` does; after a wake that names it, at once."""
        ...

    def result_sync(self) -> NestedResult:
        """`result` for a sync tool."""
        ...


class ChildTask(Protocol[R]):
    """A durable task that was created. A `Wait` is on its `task_id`."""

    @property
    def task_id(self) -> str:
        """Its id."""
        ...

    async def outcome(self) -> Outcome[R]:
        """How it ended, waited for as `execute_tool` does; after a wake that names it, at once."""
        ...

    def outcome_sync(self) -> Outcome[R]:
        """`outcome` for a sync tool."""
        ...


class ChildrenApi(Protocol):
    """Durable tasks, nested calls, and the hooks of a task."""

    async def create_task(self, task: DurableTask[In, R], input: In, *, key: str) -> ChildTask[R]:
        """Create a durable task that belongs to this one, durably when it returns (spec §4.9).

        The same key gives the same task on every run. It is stopped, and its end awaited, when this one settles.

        Raises:
            ValueError: the key was used for another task or input, or the input does not fit.
            TaskFull: this one has created 256 others, or tasks are nested too deeply.
            StaleRun: this run was given up.
        """
        ...

    def create_task_sync(self, task: DurableTask[In, R], input: In, *, key: str) -> ChildTask[R]:
        """`create_task` for a sync tool."""
        ...

    @overload
    async def execute_tool(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: Literal[True] = True
    ) -> NestedResult: ...
    @overload
    async def execute_tool(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: Literal[False]
    ) -> NestedCall: ...
    async def execute_tool(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: bool = True
    ) -> NestedResult | NestedCall:
        """Run a tool of the application as a nested call that belongs to this task, and give its result (spec §4.9).

        It is a call like any other, with gates and all, but its result goes to this task and not to the model. The
        same key gives the same call on every run; without one, the position in the run is the key, which is not
        possible any more once this task has waited. An unknown tool and bad arguments are results too.

        After a minute of waiting a replay-safe task is parked until the call ends and then run again, with the same
        keys, wake and checkpoint; an unsafe one goes on waiting, for as long as its timeout allows. With `wait=False`
        the call is started, and its handle given at once.

        Raises:
            ValueError: the key was used for another tool or other arguments, or one is needed.
            TaskFull: this one has created 256 others, or tasks are nested too deeply.
            StaleRun: this run was given up.
        """
        ...

    @overload
    def execute_tool_sync(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: Literal[True] = True
    ) -> NestedResult: ...
    @overload
    def execute_tool_sync(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: Literal[False]
    ) -> NestedCall: ...
    def execute_tool_sync(
        self, name: str, arguments: Mapping[str, Any], *, key: str | None = None, wait: bool = True
    ) -> NestedResult | NestedCall:
        """`execute_tool` for a sync tool."""
        ...

    async def ask_hooks(self, name: str, told: Any) -> list[Any]:
        """What the hooks of that name of this durable task answer, in the order of the extensions; None is left out.

        They run here, and anew whenever this run does. One that raises is left out too, with a diagnostic.
        """
        ...

    def ask_hooks_sync(self, name: str, told: Any) -> list[Any]:
        """`ask_hooks` for a sync phase; async hooks are left out, with a diagnostic."""
        ...
