"""What every workflow of ours shares: Stop is an event, not an exception, and held work waits for a person.

The main coroutine only supervises (spec §7.4): it shields the body, turns each cancellation into one
call of `on_stop`, and lets the body end by itself, with a result.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Coroutine
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.exceptions import FailureError

from tarry.attributes import STATE
from tarry.core.text import bound_text
from tarry.seeing import metrics
from workflows import metering

T = TypeVar("T")


async def supervise(body: Awaitable[T], on_stop: Callable[[], None]) -> T:
    """Run `body` and every handler to their end; a cancellation of the workflow calls `on_stop` and waits on."""
    task = asyncio.ensure_future(_with_handlers(body))
    while True:
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                raise
            on_stop()


async def _with_handlers(body: Awaitable[T]) -> T:
    result = await body
    await workflow.wait_condition(workflow.all_handlers_finished)
    return result


STOPPED = "its owner was stopped"
"""Why a stopped workflow cancels what it has started. The server gives no reason when an owner is ended by force."""

CLEANUP_SECONDS = 26.0
"""How long a stopped task may take to clean up; then its result says that the cleanup is unknown (spec §7.4)."""
LEAST_CLEANUP_SECONDS = 10.0
"""However deep it is nested."""
LEVEL_SECONDS = 2.0
"""By how much a child must be done before its owner. All three decide on commands: change them only behind a patch."""


class StopSwitch:
    """The abort mark of a workflow, and how it reaches open work."""

    def __init__(self) -> None:
        self.is_set = False
        self._deadline: datetime | None = None

    def set(self, deadline: datetime | None = None) -> None:
        """Mark; a repeat does nothing. Whoever watches open work cancels it.

        `deadline` is when cleaning up must be over, given by whoever stops this work from above; it grants no more time
        than a Stop has, and one without a time zone says nothing.
        """
        if not self.is_set:
            self.is_set = True
            self._deadline = _within_a_stop(deadline)

    def deadline(self) -> datetime:
        """When cleaning up must be over: as it was given, or else counted from the first time somebody asks."""
        if self._deadline is None:
            self._deadline = workflow.now() + timedelta(seconds=CLEANUP_SECONDS)
        return max(self._deadline, workflow.now() + timedelta(seconds=LEAST_CLEANUP_SECONDS))

    async def watch(self, activity: workflow.ActivityHandle[T]) -> T:
        """Await an activity; a Stop cancels it, and its own end is still awaited."""
        return await self._watched(activity, self._cancel(activity))

    async def watch_child(self, child: workflow.ChildWorkflowHandle[Any, T]) -> T:
        """Await `child`; a Stop cancels it by its id: the SDK's own cancel is for the first of its runs alone."""
        return await self._watched(child, self._tell(child.id))

    async def _watched(self, work: asyncio.Task[T], stopping: Coroutine[Any, Any, None]) -> T:
        # Not from `set`: a result that came in the same task as the Stop must win, and a cancel would drop it.
        # Conditions are looked at once everything that came has been taken in.
        stopper = asyncio.ensure_future(stopping)
        try:
            return await work
        finally:
            stopper.cancel()

    async def _cancel(self, activity: workflow.ActivityHandle[Any]) -> None:
        await workflow.wait_condition(lambda: self.is_set)
        activity.cancel()

    async def _tell(self, child_id: str) -> None:
        await workflow.wait_condition(lambda: self.is_set)
        # A child that has just ended needs no telling.
        with contextlib.suppress(FailureError):
            await workflow.get_external_workflow_handle(child_id).cancel(reason=STOPPED)

    async def pause(self, seconds: float, why: str) -> None:
        """Wait durably; a Stop ends it early."""
        # Which exception comes out says nothing: a late event and the timer may arrive together.
        with contextlib.suppress(asyncio.TimeoutError):
            await workflow.wait_condition(
                lambda: self.is_set,
                timeout=timedelta(seconds=seconds),
                timeout_summary=bound_text(why, max_bytes=200).text,
            )


def _within_a_stop(deadline: datetime | None) -> datetime | None:
    # Any shell can send one.
    if deadline is None or deadline.utcoffset() is None:
        return None
    return min(deadline, workflow.now() + timedelta(seconds=CLEANUP_SECONDS))


class Holder:
    """Work that is held until somebody asks to retry it: visible in lists and in the Web UI."""

    def __init__(self, stop: StopSwitch) -> None:
        self.why = ""
        self._stop = stop

    async def hold(self, why: str) -> bool:
        """Wait for a retry; False when the work was stopped instead."""
        self.why = why
        metering.count(metrics.HOLDS, kind=metering.kind())
        workflow.upsert_search_attributes([STATE.value_set("held")])
        workflow.set_current_details(
            f"**Held**: {why}.\n\nRetry it with `tarry retry '{workflow.info().workflow_id}'`, or stop it with "
            f"`temporal workflow cancel --workflow-id '{workflow.info().workflow_id}'`."
        )
        await workflow.wait_condition(lambda: not self.why or self._stop.is_set)
        self.why = ""
        workflow.set_current_details("")
        workflow.upsert_search_attributes([STATE.value_set("running")])
        return not self._stop.is_set

    def release(self) -> bool:
        """Let held work go on; False when nothing is held."""
        was_held, self.why = bool(self.why), ""
        return was_held
