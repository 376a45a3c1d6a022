"""`tarry.tool-run` and `tarry.reconcile`: the activities that run a tool's code.

Raising is no activity retry: every end of a tool is an outcome that the model can read. The errors
that leave here are addressed to the call: the worker stops, or the tool asks to be run again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.heartbeat import Heartbeat
from activities.outcomes import Outcomes
from activities.runner import undisturbed
from activities.tool_api import is_after_reset
from activities.tool_run import Stopped, ToolRun, published_before
from tarry.app import Registry
from tarry.core import results
from tarry.core.protocol import (
    RECONCILE,
    TOOL_RUN,
    WORKER_SHUTDOWN,
    Progress,
    Reconciliation,
    ToolOutcome,
    ToolRunInput,
)
from tarry.store import BlobStore
from tarry.tools import Tool

STOP_GRACE = timedelta(seconds=2)
"""How long a tool's code has to end once it is stopped. The grace of a worker that shuts down comes before."""


class ToolActivities:
    """Runs the tools of `registry`. Stopped code has `grace` to end, then its thread is abandoned."""

    def __init__(self, registry: Registry, client: Client, blobs: BlobStore, grace: timedelta = STOP_GRACE) -> None:
        self._tools = registry.tools
        self._client = client
        self._outcomes = Outcomes(client, blobs)
        self._grace = grace

    @activity.defn(name=TOOL_RUN)
    async def run(self, input: ToolRunInput) -> ToolOutcome:
        """Run a tool once and say how it ended; a tool this worker lacks is `not_here`, nothing run (spec §1.4).

        Raises:
            ApplicationError: with `Progress`, of type WORKER_SHUTDOWN when the worker was shut down, GIVEN_BACK when
                the run was taken from outside (retryable for a safe tool) or an unsafe one met a failure of ours;
                of type RETRY_TOOL when a safe tool asks for it; non-retryable when we ourselves failed.
        """
        tool = self._tools.get(input.call.tool)
        if tool is None:
            has_begun = activity.info().attempt > 1 or is_after_reset(input)
            return results.not_here(input.call.tool, published_before() if has_begun else None)
        run, heartbeat = self._prepare(tool, input)
        with _our_errors_are_final(run):
            async with heartbeat:
                try:
                    outcome = await run.execute()
                except Stopped as stop:
                    outcome = run.stopped(stop.reason)
                return await undisturbed(self._outcomes.deliverable(outcome))

    @activity.defn(name=RECONCILE)
    async def reconcile(self, input: ToolRunInput) -> Reconciliation:
        """Ask a tool whether a call that was cut off happened.

        Raises:
            ApplicationError: retryable, when this worker lacks the tool or was shut down: another may be asked.
        """
        tool = self._tools.get(input.call.tool)
        if tool is None:
            raise ApplicationError(results.not_here(input.call.tool).text)
        run, heartbeat = self._prepare(tool, input)
        with _our_errors_are_final(run):
            async with heartbeat:
                try:
                    outcome = await run.reconcile()
                except Stopped as stop:
                    if stop.reason == "shutdown":
                        raise ApplicationError("the worker was shut down", type=WORKER_SHUTDOWN) from None
                    return Reconciliation()
                if outcome is not None:
                    outcome = await undisturbed(self._outcomes.deliverable(outcome))
                return Reconciliation(outcome=outcome)

    def _prepare(self, tool: Tool, input: ToolRunInput) -> tuple[ToolRun, Heartbeat]:
        def progress() -> Progress:
            return run.progress

        heartbeat = Heartbeat(progress)
        run = ToolRun(tool, input, self._client, self._outcomes, self._grace, heartbeat.touch)
        return run, heartbeat


@contextmanager
def _our_errors_are_final(run: ToolRun) -> Iterator[None]:
    try:
        yield
    except ApplicationError:
        raise
    except Exception as error:
        raise run.failed(error) from error
