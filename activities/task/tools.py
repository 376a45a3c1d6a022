"""`tarry.tool-run`, `tarry.reconcile` and `tarry.clean-up`: the activities that run a tool's code.

Raising is no activity retry: every end of a tool is an outcome that the model can read. The errors
that leave here are addressed to the call: the worker stops, or the tool asks to be run again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError

from activities.heartbeat import Heartbeat
from activities.runner import undisturbed
from activities.task.asking import is_after_reset
from activities.task.outcomes import Outcomes
from activities.task.tool_api import Host
from activities.task.tool_run import Stopped, ToolRun, published_before
from activities.task.tool_spans import note_end, tool_span
from tarry.app import Registry
from tarry.client import Harness
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
from tarry.core.routing import worker_of
from tarry.core.waiting import CLEAN_UP, CleanedUp, ParkRequest, StepRequest
from tarry.seeing.content import Content
from tarry.settings import Settings
from tarry.store import BlobStore
from tarry.tools import Tool
from tarry.wraps import Wrap

STOP_GRACE = timedelta(seconds=2)
"""How long a tool's code has to end once it is stopped. The grace of a worker that shuts down comes before."""


class ToolActivities:
    """Runs the tools of `registry`, with `models` to choose from.

    Stopped code has `grace` to end, then its thread is abandoned.
    """

    def __init__(
        self,
        registry: Registry,
        client: Client,
        blobs: BlobStore,
        settings: Settings,
        grace: timedelta = STOP_GRACE,
        models: Sequence[str] = (),
    ) -> None:
        self._registry = registry
        self._content = Content(settings.trace_content, registry.redact)
        self._task_queue = settings.task_queue
        self._outcomes = Outcomes(client, blobs)
        self._host = Host(Harness(client, settings), registry, self._outcomes, grace, tuple(models))

    @activity.defn(name=TOOL_RUN)
    async def run(self, input: ToolRunInput) -> ToolOutcome | ParkRequest:
        """Run a tool once and say how it ended, or what it waits for.

        A tool that this worker lacks is `not_here`, and one that its application gives to another (spec §25.2).

        Raises:
            ApplicationError: with `Progress`, of type WORKER_SHUTDOWN when the worker was shut down, GIVEN_BACK when
                the run was taken from outside (retryable for a safe tool) or an unsafe one met a failure of ours;
                of type RETRY_TOOL when a safe tool asks for it; non-retryable when we ourselves failed.
        """
        tool = self._tool(input)
        if tool is None:
            return self.not_here(input)
        if not self.is_at_home(tool.worker):
            return self.not_here(input, tool.worker)
        end = await self.execute(tool, input, self._registry.chosen(input.agent).wraps)
        assert not isinstance(end, StepRequest)
        return end

    def is_at_home(self, worker: str) -> bool:
        """Whether code that names `worker` is to be run off the queue that the activity came from."""
        return worker_of(activity.info().task_queue, self._task_queue) == worker

    def not_here(self, input: ToolRunInput, worker: str | None = None) -> ToolOutcome:
        """The outcome of code that is not run here; `worker` has it."""
        has_begun = activity.info().attempt > 1 or is_after_reset(input)
        return results.not_here(input.call.tool, published_before() if has_begun else None, worker)

    async def execute(
        self, tool: Tool, input: ToolRunInput, wraps: Sequence[Wrap] = ()
    ) -> ToolOutcome | ParkRequest | StepRequest:
        """Run code that is declared as `tool` once; raises as `run`."""
        with tool_span("run_tool", input, self._content) as span:
            end = await self._execute(tool, input, wraps)
            note_end(span, input, end, self._content)
        return end

    async def _execute(
        self, tool: Tool, input: ToolRunInput, wraps: Sequence[Wrap]
    ) -> ToolOutcome | ParkRequest | StepRequest:
        run, heartbeat = self._prepare(tool, input, wraps)
        with _our_errors_are_final(run):
            async with heartbeat:
                try:
                    end = await run.execute()
                except Stopped as stop:
                    end = run.stopped(stop.reason)
                end = end.model_copy(update={"usage": run.usage})
                if isinstance(end, ParkRequest | StepRequest):
                    return end
                return await undisturbed(self._outcomes.deliverable(end))

    @activity.defn(name=RECONCILE)
    async def reconcile(self, input: ToolRunInput) -> Reconciliation:
        """Ask a tool whether a call that was cut off happened.

        Raises:
            ApplicationError: retryable, when this worker lacks the tool or was shut down: another may be asked.
        """
        tool = self._tool(input)
        if tool is None:
            raise ApplicationError(results.not_here(input.call.tool).text)
        run, heartbeat = self._prepare(tool, input)
        with tool_span("reconcile", input, self._content), _our_errors_are_final(run):
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

    @activity.defn(name=CLEAN_UP)
    async def clean_up(self, input: ToolRunInput) -> CleanedUp:
        """Run a tool's cancel hook to its end (spec §4.8): where its run was, whoever has the tool now (spec §25.2).

        Raises:
            ApplicationError: retryable: the hook raised or took too long, or this worker lacks the tool.
        """
        return await self.clean_up_with(self._tool(input), input)

    async def clean_up_with(self, tool: Tool | None, input: ToolRunInput) -> CleanedUp:
        """Run the cancel hook of `tool`; raises as `clean_up`."""
        if tool is None or tool.cancel is None:
            raise ApplicationError(f"this worker has no cancel hook of tool {input.call.tool}")
        run, heartbeat = self._prepare(tool, input)
        with tool_span("clean_up", input, self._content):
            await self._clean_up(run, heartbeat)
        return CleanedUp()

    async def _clean_up(self, run: ToolRun, heartbeat: Heartbeat) -> None:
        async with heartbeat:
            try:
                problem = await run.clean_up()
            except Stopped:
                raise ApplicationError("the hook was stopped with its worker") from None
        if problem:
            raise ApplicationError(problem)

    def _tool(self, input: ToolRunInput) -> Tool | None:
        return self._registry.chosen(input.agent).tools.get(input.call.tool)

    def _prepare(self, tool: Tool, input: ToolRunInput, wraps: Sequence[Wrap] = ()) -> tuple[ToolRun, Heartbeat]:
        def progress() -> Progress:
            return run.progress

        heartbeat = Heartbeat(progress)
        run = ToolRun(tool, input, self._host, heartbeat.touch, wraps)
        return run, heartbeat


@contextmanager
def _our_errors_are_final(run: ToolRun) -> Iterator[None]:
    try:
        yield
    except ApplicationError:
        raise
    except Exception as error:
        raise run.failed(error) from error
