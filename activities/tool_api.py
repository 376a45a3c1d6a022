"""The `api` of a running tool: publishing, remarks, memos, signals, and the fence around a run that was given up.

Called from the tool's thread or loop, works on the worker's loop. After the run has ended, and as soon
as it is known to be stale, every method raises `StaleRun` (spec §4.6).
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from datetime import datetime, timedelta
from typing import Any, Literal, TypeVar

from temporalio import activity
from temporalio.client import Client, WorkflowHandle, WorkflowQueryRejectedError, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_exponential

from activities.output import Output
from signals.box import KeyState
from signals.parking import Wake
from signals.tokens import Signal, SignalKey
from tarry.api import Expired, Received, StaleRun, TaskFull, ToolApi
from tarry.client.signals import deliver
from tarry.core.protocol import (
    CONFLICT,
    DUPLICATE,
    MEMO,
    STALE,
    TASK_FULL,
    AnnounceInput,
    MemoInput,
    ToolRunInput,
    digest,
)
from tarry.core.results import Diagnostic, plain_json
from tarry.core.text import canonical_json, clean_text
from tarry.core.waiting import CREATE_TASK, SIGNAL_STATE, CreateTask, SignalResult
from tarry.tasks import DurableTask

T = TypeVar("T")
I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

MAX_MEMO_BYTES = 64 * 1024

Purpose = Literal["memo", "reconcile", "clean-up"]
"""What code of the tool runs: its name stands in the ids of memo requests."""

OwnInput = MemoInput | AnnounceInput | CreateTask
"""What a run may ask of its own workflow."""

_GIVEN_UP = "this run of the tool has ended or was given up"

_UNANSWERED = "AcceptedUpdateCompletedWorkflow"
"""The server's word for a workflow that ended with our update accepted and unanswered."""


class RunApi(ToolApi):
    """What one run of `input` may use. Make it in the activity, on the worker's loop.

    `purpose` keeps the memo requests of a hook apart from those of the run: the server answers a repeated request
    id with the first answer.
    """

    def __init__(
        self,
        client: Client,
        input: ToolRunInput,
        output: Output,
        stop: threading.Event,
        purpose: Purpose = "memo",
    ) -> None:
        info = activity.info()
        self._client = client
        self._call = call_of(client, input)
        self._input = input
        self._output = output
        self._stop = stop
        self._request = f"{purpose}-{input.run}-{info.attempt}"
        self._temporal_attempt = info.attempt
        before = input.run - input.first_run
        self._attempt = before + info.attempt + (1 if is_after_reset(input) else 0)
        self._started, self._began = info.started_time, time.monotonic()
        self._home = asyncio.get_running_loop()
        self._closed = asyncio.Event()
        self._lock = threading.Lock()
        self._memos = 0
        self._diagnostics: list[Diagnostic] = []

    @property
    def task_id(self) -> str:
        """The id of this call."""
        return self._input.task_id

    @property
    def conversation_id(self) -> str:
        """The conversation in which the call was made."""
        return self._input.conversation_id

    @property
    def idempotency_key(self) -> str:
        """Fixed with the call's arguments."""
        return self._input.idempotency_key

    @property
    def attempt(self) -> int:
        """1 on the first run, more on each rerun."""
        return self._attempt

    @property
    def wake(self) -> Wake | None:
        """Why it runs again."""
        return self._input.wake

    @property
    def checkpoint(self) -> Any:
        """What it last parked with."""
        return self._input.checkpoint

    @property
    def is_cancelled(self) -> bool:
        """Whether the code is to end."""
        return self._stop.is_set()

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The remarks made so far."""
        with self._lock:
            return tuple(self._diagnostics)

    def now(self) -> datetime:
        """The server's clock at the start of the activity, moved on by this host's steady one."""
        self._check_open()
        return self.server_now

    @property
    def server_now(self) -> datetime:
        """`now`, also after the run has ended."""
        return self._started + timedelta(seconds=time.monotonic() - self._began)

    def output(self, text: str) -> None:
        """Publish progress; a heartbeat carries it away soon after."""
        self._check_open()
        self._output.add(text)

    def diagnostic(self, message: str, *, severity: Literal["info", "warn", "error"] = "info", code: str = "") -> None:
        """Add a remark to what the model reads."""
        self._check_open()
        remark = Diagnostic(severity=severity, message=message, code=clean_text(code))
        with self._lock:
            self._diagnostics.append(remark)

    async def memo(self, key: str, value: Any) -> Any:
        """Ask the own workflow to store a memo; the answer is in its history.

        Raises:
            StaleRun: this run was given up.
            TaskFull: over 64 KiB, or the call's memos would exceed their quota.
            TypeError: `value` is not JSON data.
        """
        return await asyncio.wrap_future(self._ask_memo(key, value))

    def memo_sync(self, key: str, value: Any) -> Any:
        """`memo` for a sync tool: blocks its thread."""
        return self._ask_memo(key, value).result()

    async def read_signal(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key holds, asked of the own workflow by query."""
        return _told(token, await asyncio.wrap_future(self._ask_state(token, key)))

    def read_signal_sync(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """`read_signal` for a sync tool: blocks its thread."""
        return _told(token, self._ask_state(token, key).result())

    async def signal(
        self, task_id: str, token: Signal[T], key: str, value: T, *, delivery_id: str | None = None
    ) -> SignalResult:
        """Deliver to another task."""
        return await asyncio.wrap_future(self._send(task_id, token, key, value, delivery_id))

    def signal_sync(
        self, task_id: str, token: Signal[T], key: str, value: T, *, delivery_id: str | None = None
    ) -> SignalResult:
        """`signal` for a sync tool: blocks its thread."""
        return self._send(task_id, token, key, value, delivery_id).result()

    async def create_task(self, task: DurableTask[I, Any], input: I, *, key: str) -> str:
        """Create a child task by an update of the own workflow."""
        return await asyncio.wrap_future(self._create(task, input, key))

    def create_task_sync(self, task: DurableTask[I, Any], input: I, *, key: str) -> str:
        """`create_task` for a sync tool: blocks its thread."""
        return self._create(task, input, key).result()

    def close(self) -> None:
        """Raise the fence, on the worker's loop: from here on every method raises `StaleRun`."""
        self._closed.set()

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise StaleRun(_GIVEN_UP)

    def _ask_memo(self, key: str, value: Any) -> Future[Any]:
        self._check_open()
        memo = self._memo_input(key, value)
        with self._lock:
            self._memos += 1
            request = f"{self._request}-{self._memos}"
        return self._at_home(lambda: start_update(self._call, MEMO, memo, request))

    def _ask_state(self, token: Signal[Any], key: str) -> Future[KeyState]:
        return self._at_home(lambda: asyncio.create_task(_key_state(self._call, token.key(key))))

    def _send(
        self, task_id: str, token: Signal[T], key: str, value: T, delivery_id: str | None
    ) -> Future[SignalResult]:
        # The same on every rerun, and another for every other key, so that a rerun delivers nothing twice.
        chosen = delivery_id or digest(canonical_json([self.task_id, task_id, token.name, key]))
        return self._at_home(
            lambda: asyncio.create_task(deliver(self._client, task_id, token, key, value, delivery_id=chosen))
        )

    def _create(self, task: DurableTask[I, Any], input: I, key: str) -> Future[str]:
        wanted = CreateTask(key=key, call=task.call(input), run=self._input.run, attempt=self._temporal_attempt)
        request = f"create-{digest(canonical_json([key, self._request]))}"
        return self._at_home(lambda: start_update(self._call, CREATE_TASK, wanted, request))

    def _at_home(self, start: Callable[[], asyncio.Task[R]]) -> Future[R]:
        """Start work on the worker's loop; it is given up when this run is."""
        self._check_open()
        asking = self._unless_closed(start)
        try:
            return asyncio.run_coroutine_threadsafe(asking, self._home)
        except RuntimeError:  # the worker's loop is gone under an abandoned thread
            asking.close()
            raise StaleRun(_GIVEN_UP) from None

    def _memo_input(self, key: str, value: Any) -> MemoInput:
        key = clean_text(key)
        try:
            data = plain_json(value)
            size = len(key.encode()) + len(canonical_json(data).encode())
        except ValueError as error:  # Unencodable is one, and so is an integer of thousands of digits
            raise TypeError(f"memo {key!r} is not JSON data: {error}") from None
        if size > MAX_MEMO_BYTES:
            raise TaskFull(f"memo {key!r} takes {size} bytes, at most {MAX_MEMO_BYTES} are stored")
        return MemoInput(key=key, value=data, run=self._input.run, attempt=self._temporal_attempt)

    async def _unless_closed(self, start: Callable[[], asyncio.Task[R]]) -> R:
        work = start()
        work.add_done_callback(_take_error)
        closed = asyncio.ensure_future(self._closed.wait())
        try:
            await asyncio.wait({work, closed}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise StaleRun(_GIVEN_UP)
            return work.result()
        finally:
            closed.cancel()
            work.cancel()


@retry(
    retry=retry_if_exception_type((RPCError, WorkflowQueryRejectedError)),
    stop=stop_after_delay(60),
    wait=wait_exponential(multiplier=0.1, max=2),
    reraise=True,
)
async def _key_state(call: WorkflowHandle[Any, Any], key: SignalKey) -> KeyState:
    try:
        state: KeyState = await call.query(SIGNAL_STATE, key, result_type=KeyState, rpc_timeout=timedelta(seconds=3))
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise StaleRun(_GIVEN_UP) from error
        raise
    return state


def _told(token: Signal[T], state: KeyState) -> Received[T] | Expired | None:
    if state.stored is not None:
        return Received(token.read(state.stored.value, state.stored.version), state.stored.at)
    return Expired() if state.expired else None


def call_of(client: Client, input: ToolRunInput) -> WorkflowHandle[Any, Any]:
    """The workflow that scheduled this activity, in that run: what a reset cut off reaches no later one."""
    return client.get_workflow_handle(input.task_id, run_id=activity.info().workflow_run_id)


def is_after_reset(input: ToolRunInput) -> bool:
    """Whether a reset of the call scheduled this: what it did before, its history no longer tells."""
    return input.first_run_id not in ("", activity.info().workflow_run_id)


def start_update(call: WorkflowHandle[Any, Any], update: str, input: OwnInput, request: str) -> asyncio.Task[Any]:
    """Send an update to the call's own workflow; the same `request` again gives the first answer.

    A task of its own, since the SDK answers a cancellation with an error of another kind. It raises
    `StaleRun` when the workflow has given this run up or has ended, `TaskFull` when it has no room.
    """
    task = asyncio.create_task(_update(call, update, input, request))
    task.add_done_callback(_take_error)
    return task


async def _update(call: WorkflowHandle[Any, Any], update: str, input: OwnInput, request: str) -> Any:
    try:
        return await call.execute_update(update, input, id=request)
    except WorkflowUpdateFailedError as error:
        return _answer_of(error)
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            raise StaleRun(_GIVEN_UP) from error
        raise


def _answer_of(error: WorkflowUpdateFailedError) -> Any:
    """What the call's refusal means for the tool: a key that holds a value gives that value."""
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        raise error
    if cause.type == DUPLICATE:
        return cause.details[0]
    if cause.type == TASK_FULL:
        raise TaskFull(cause.message) from error
    if cause.type == CONFLICT:
        raise ValueError(cause.message) from error
    if cause.type in (STALE, _UNANSWERED):
        raise StaleRun(_GIVEN_UP) from error
    raise error


def _take_error(update: asyncio.Future[Any]) -> None:
    # Nobody awaits an update that was given up; unread, its error would be logged as a bug.
    if not update.cancelled():
        update.exception()
