"""Authoring durable tasks: named phases with a checkpoint, each run as a tool is, with the same `api`.

A task is for work that belongs to no tool call: it may run for months, and is started by a program, by a
tool or by another task. A phase returns what comes next: a `Sleep`, a `Go` to another phase, or, anything
else, the task's result. Phases are run again when their worker is lost, so what they do outside is
idempotent by `api.idempotency_key` or by memos (spec §4.3).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, TypeAdapter, create_model

from signals.data import json_size
from tarry.core.protocol import ResolvedCall
from tarry.core.routing import checked_worker

In = TypeVar("In")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

MAX_INPUT_BYTES = 256 * 1024
"""Of a task's input, as JSON; larger things go into a store of the application, and their names here."""

Status = Literal["completed", "failed", "aborted"]

Migrate = Callable[[str, Any, int], tuple[str, Any]]
"""`migrate(phase, checkpoint, from_version)`: from those of an older version to those of today."""


@dataclass(frozen=True)
class Go:
    """Go on with `phase`, which reads `checkpoint`, JSON data. As the checkpoint of a `Sleep`: after it."""

    phase: str
    checkpoint: Any = None


@dataclass(frozen=True)
class Outcome(Generic[R]):
    """How a durable task ended: `completed` with a result; `failed`, or `aborted` on request, with a reason."""

    status: Status
    result: R | None = None
    error: str = ""


class DurableTask(Generic[In, R]):
    """A kind of task; declare its phases with `@task.phase`, the first of which it begins with.

    Args:
        name: unique in an application, and what its parked work is known by: never change it.
        input: the type of its input, checked when it is created and each time a phase runs.
        result: the type of its result.
        version: raise it when phases or checkpoints change so that older ones do not fit.
        migrate: makes an older version's phase and checkpoint current, in the thread of the phase or the abort handler
            and within its time (spec §4.2). Without one they are taken as they are.
        timeout: of one run of a phase, never of a sleep.
        worker: the name of the worker that runs its phases and its abort handler (spec §25.1).

    A phase is called with the input and `api`, sync or async.
    """

    def __init__(
        self,
        name: str,
        input: type[In],
        result: type[R],
        *,
        version: int = 1,
        migrate: Migrate | None = None,
        timeout: timedelta = timedelta(hours=1),
        worker: str = "",
    ) -> None:
        if not 0 < len(name) <= 100 or not name.isprintable():
            raise ValueError(f"task name {name!r} must be 1 to 100 printable characters")
        self.name = name
        self.version = version
        self.migrate = migrate
        self.timeout = timeout
        self.worker = checked_worker(worker, f"task {name}")
        self.phases: dict[str, Callable[..., Any]] = {}
        self.on_abort: Callable[..., Any] | None = None
        self.parameters: type[BaseModel] = create_model("Parameters", input=(input, ...))
        self._input: TypeAdapter[In] = TypeAdapter(input)
        self._result: TypeAdapter[R] = TypeAdapter(result)

    @property
    def initial(self) -> str:
        """The phase that it begins with.

        Raises:
            ValueError: it has none.
        """
        if not self.phases:
            raise ValueError(f"task {self.name} has no phase; declare one with @task.phase")
        return next(iter(self.phases))

    def phase(self, function: F) -> F:
        """Declare `function` as the phase of its name.

        Raises:
            ValueError: there is one of that name.
        """
        if function.__name__ in self.phases:
            raise ValueError(f"task {self.name} has two phases named {function.__name__}")
        self.phases[function.__name__] = function
        return function

    def abort(self, function: F) -> F:
        """Declare what cleans up when the task is stopped, in whatever phase; it must be idempotent (spec §4.8)."""
        self.on_abort = function
        return function

    def call(self, input: In) -> ResolvedCall:
        """What a task of this kind is started with.

        Raises:
            ValueError: the input does not fit its type, or has over 256 KiB as JSON; the task has no phase.
        """
        data = self._input.dump_python(input, mode="json")
        self._input.validate_python(data)
        if (size := json_size(data)) > MAX_INPUT_BYTES:
            raise ValueError(f"the input of task {self.name} has {size} bytes, {MAX_INPUT_BYTES} are allowed")
        return ResolvedCall(
            call_id="",
            tool=self.name,
            arguments={"input": data, "phase": self.initial, "version": self.version},
            replay="safe",
            cancels="always" if self.on_abort else "never",
            timeout=self.timeout.total_seconds(),
            worker=self.worker,
        )

    def dump_result(self, value: R) -> Any:
        """A result as JSON data."""
        return self._result.dump_python(value, mode="json", warnings=False)

    def read_result(self, data: Any) -> R:
        """A result from JSON data.

        Raises:
            ValueError: it does not fit the type.
        """
        return self._result.validate_python(data)

    def read_outcome(self, status: Status, result: Any, error: str) -> Outcome[R]:
        """An outcome whose result is JSON data; one that does not fit the type counts as a failure."""
        try:
            return Outcome(status, self.read_result(result) if status == "completed" else None, error)
        except ValueError as problem:
            return Outcome("failed", None, f"the result of task {self.name} does not fit its type: {problem}")
