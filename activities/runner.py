"""A tool's code in a thread of its own, and how it is stopped there.

The rule: whatever that code does to its thread or its event loop, the worker's loop does not feel it,
and no thread of a tool keeps the process alive (spec §4.7).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import queue
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, ParamSpec, TypeVar

from temporalio import activity

P = ParamSpec("P")
T = TypeVar("T")

MAX_POOL_THREADS = 32
"""Threads in which one tool's loop runs blocking calls."""

StopReason = Literal["abort", "shutdown", "stale", "other"]
"""Why the platform stops an activity. `stale`: the server has given this attempt up."""


@dataclass(frozen=True)
class Ended:
    """How the code came to its end: with `value`, or with `error`."""

    value: Any = None
    error: BaseException | None = None


class ToolThread:
    """`call` in a daemon thread; a coroutine it returns gets an event loop of its own there.

    Starts at once, with a copy of the caller's context variables. `stop` is set as soon as the code
    is to end; a coroutine is cancelled then, other code has to look.
    """

    def __init__(self, call: Callable[[], Any], stop: threading.Event, name: str) -> None:
        self._call = call
        self._stop = stop
        self._home = asyncio.get_running_loop()
        self._ended: asyncio.Future[Ended] = self._home.create_future()
        self._lock = threading.Lock()
        self._cancel_task: Callable[[], object] | None = None
        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(self._main,), name=name, daemon=True).start()

    @property
    def ended(self) -> Ended | None:
        """How the code ended; None while it runs."""
        return self._ended.result() if self._ended.done() else None

    async def wait(self, seconds: float) -> Ended | None:
        """Return how the code ended, or None when it still runs after `seconds`."""
        await asyncio.wait({self._ended}, timeout=seconds)
        return self.ended

    async def stop(self, grace: float) -> bool:
        """Stop the code and return whether it ended within `grace` seconds; if not, it is abandoned."""
        self._cancel()
        return await undisturbed(self.wait(grace)) is not None

    def _cancel(self) -> None:
        with self._lock:
            self._stop.set()
            cancel = self._cancel_task
        if cancel is not None:
            # A closed loop has nothing left to cancel.
            with contextlib.suppress(RuntimeError):
                cancel()

    def _main(self) -> None:
        runner = asyncio.Runner(loop_factory=_new_loop)
        try:
            value = self._call()
            if inspect.isawaitable(value):
                value = runner.run(self._attend(value))
            ended = Ended(value)
        except BaseException as error:  # SystemExit and KeyboardInterrupt end the tool, not the worker
            ended = Ended(error=error)
        # The worker's loop may be gone under an abandoned thread.
        with contextlib.suppress(RuntimeError):
            self._home.call_soon_threadsafe(self._report, ended)
        # Only now: what the tool left behind in its loop may take its time, the result need not wait.
        runner.close()

    async def _attend(self, work: Awaitable[Any]) -> Any:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        with self._lock:
            self._cancel_task = lambda: loop.call_soon_threadsafe(task.cancel)
            if self._stop.is_set():
                task.cancel()
        return await work

    def _report(self, ended: Ended) -> None:
        if not self._ended.done():
            self._ended.set_result(ended)


async def undisturbed(work: Awaitable[T]) -> T:
    """Await `work`, which is bounded by itself, to its end, whatever cancellation arrives meanwhile."""
    task = asyncio.ensure_future(work)
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({task})
    return task.result()


def stop_reason() -> StopReason:
    """Why the current activity was cancelled."""
    details = activity.cancellation_details()
    if details is None:
        return "shutdown" if activity.is_worker_shutdown() else "other"
    if details.cancel_requested:
        return "abort"
    if details.worker_shutdown:
        return "shutdown"
    return "stale" if details.not_found or details.timed_out else "other"


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_DaemonThreads())
    return loop


class _DaemonThreads(ThreadPoolExecutor):
    """Where a tool's loop runs blocking calls and name lookups.

    The interpreter joins an ordinary pool's threads at exit, so that one hanging call would keep a
    stopped worker alive.
    """

    def __init__(self) -> None:
        super().__init__()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._started = 0

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        self._jobs.put(partial(_fulfil, future, partial(fn, *args, **kwargs)))
        if self._started < MAX_POOL_THREADS:
            self._started += 1
            threading.Thread(target=self._work, daemon=True).start()
        return future

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end after what is queued; never waits for them."""
        for _ in range(self._started):
            self._jobs.put(None)


def _fulfil(future: Future[T], call: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(call())
    except BaseException as error:
        future.set_exception(error)
