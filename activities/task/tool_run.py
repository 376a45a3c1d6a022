"""One attempt at running a tool: whether it may run, its code, and how it ended.

The replay rule is asked again here, of the declaration this worker has (spec §4.3).
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from pydantic import BaseModel
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.service import RPCError

from activities.output import Output
from activities.runner import Ended, StopReason, ToolThread, stop_reason
from activities.task.asking import call_of, is_after_reset, start_update
from activities.task.cycles import check_no_cycle
from activities.task.timelines import Before, intent_before
from activities.task.tool_api import Host, Purpose, RunApi
from activities.task.tool_spans import count_run
from activities.task.wrapping import ForeignPark, Wrapped
from signals.box import Box
from signals.parking import InvalidPark, Sleep, Wait, park, park_on
from tarry.api import StaleRun
from tarry.core import results
from tarry.core.arguments import BadArguments, parameters_text, validate
from tarry.core.gates import arguments_digest
from tarry.core.messages import Usage
from tarry.core.protocol import (
    ANNOUNCE,
    GIVEN_BACK,
    RETRY_TOOL,
    WORKER_SHUTDOWN,
    AnnounceInput,
    CallError,
    Progress,
    ToolOutcome,
    ToolRunInput,
)
from tarry.core.results import Diagnostic
from tarry.core.text import bound_text
from tarry.core.waiting import ParkRequest, StepRequest
from tarry.hooks import HookCall
from tarry.redaction import show_ask
from tarry.tools import API_PARAMETER, RetryTool, Tool
from tarry.wraps import Wrap

MAX_ATTEMPTS = 6
"""Runs of a tool that asks to be run again, the first included."""

HOOK_SECONDS = 20.0
"""How long a reconcile or a cancel hook may take."""


class Stopped(Exception):
    """The platform stopped the activity; the tool's code was stopped or abandoned."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(reason)
        self.reason: StopReason = reason


class TimedOut(Exception):
    """The code ran too long; it was stopped or abandoned."""


class ToolRun:
    """An attempt at `input` with the tool as this worker declares it.

    `touch` is called on the worker's loop when `progress` has changed.
    """

    def __init__(
        self, tool: Tool, input: ToolRunInput, host: Host, touch: Callable[[], None], wraps: Sequence[Wrap] = ()
    ) -> None:
        self._tool = tool
        self._input = input
        self._host = host
        self._wraps = wraps
        self._client = host.harness.client
        self._outcomes = host.outcomes
        self._grace = host.grace.total_seconds()
        self._attempt = activity.info().attempt
        self._output = Output(touch)
        self._is_new = False
        self._diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def usage(self) -> Usage | None:
        """What the code reported of its spending."""
        return self._output.usage

    @property
    def progress(self) -> Progress:
        """What a heartbeat carries."""
        return self._output.progress

    async def execute(self) -> ToolOutcome | ParkRequest | StepRequest:
        """Run the tool, unless it may not run again or says that it happened already.

        Raises:
            Stopped: by the platform; `stopped` says what that means.
            ApplicationError: the tool asks to be run again, and may be.
        """
        self._take_over_usage()
        try:
            arguments = self._arguments()
        except BadArguments as error:
            return self._refused(error)
        if self._attempt > 1 and self._may_rerun:
            await self._announce()
        if self._attempt == 1 and is_after_reset(self._input) and not self._may_rerun:
            before = await self._before()
            if before.went_on is not None:
                return before.went_on
            self._is_new = not before.began
        if self._is_rerun:
            known = await self._ask(arguments, Output(lambda: None))
            if known is not None or not self._may_rerun:
                return known or self._interrupted()
        return await self._run(arguments)

    async def reconcile(self) -> ToolOutcome | None:
        """Ask the tool whether it happened; None when it does not know, has no hook, or the hook fails.

        Raises:
            Stopped: by the platform.
        """
        self._take_over_usage()
        try:
            return await self._ask(self._arguments(), self._output)
        except BadArguments:
            activity.logger.warning("The arguments of %s no longer fit; its hook was not asked", self._tool.name)
            return None

    def _take_over_usage(self) -> None:
        """What earlier attempts are known to have spent counts on."""
        if (usage := progress_before().usage) is not None:
            self._output.spend(usage)

    def stopped(self, reason: StopReason) -> ToolOutcome:
        """The outcome of a run that was stopped.

        Raises:
            ApplicationError: the call did not ask for it, and decides what comes next.
        """
        match reason:
            case "abort":
                return results.aborted(self._tool.name, self._output.tail, diagnostics=self._diagnostics)
            case "stale":  # the server takes no answer of this attempt any more
                return results.interrupted(self._tool.name, self._output.tail)
            case "shutdown":
                raise ApplicationError(
                    "the worker was shut down",
                    self.progress,
                    type=WORKER_SHUTDOWN,
                    non_retryable=True,
                    category=ApplicationErrorCategory.BENIGN,
                )
            case "other":
                raise self._given_back("the run was stopped from outside", non_retryable=not self._may_rerun)

    def failed(self, error: Exception) -> ApplicationError:
        """The error for a failure of our own: never a reason to run again, and what an unsafe tool did is not known."""
        text = bound_text(f"the worker failed with {type(error).__name__}: {error}", max_bytes=1024).text
        return ApplicationError(text, non_retryable=True) if self._may_rerun else self._given_back(text, True)

    def _given_back(self, text: str, non_retryable: bool) -> ApplicationError:
        return ApplicationError(text, self.progress, type=GIVEN_BACK, non_retryable=non_retryable)

    @property
    def _is_rerun(self) -> bool:
        if self._attempt > 1 or (is_after_reset(self._input) and not self._is_new):
            return True
        # An unsafe call is scheduled again only after a worker that had not run it (spec §1.4).
        return self._input.run > self._input.first_run and self._input.call.replay == "safe"

    @property
    def _may_rerun(self) -> bool:
        return self._tool.replay == "safe" and self._input.call.replay == "safe"

    def _arguments(self, changed: Mapping[str, Any] | None = None) -> BaseModel:
        return validate({**self._input.call.arguments, **(changed or {})}, self._tool.parameters)

    def _refused(self, error: BadArguments) -> ToolOutcome:
        if self._is_rerun or self._input.wake is not None:  # it has run, under the declaration of an earlier deploy
            return self._interrupted()
        text = results.invalid_arguments_text(self._tool.name, error.text, parameters_text(self._tool.parameters))
        return results.refusal(CallError(code="invalid_arguments", text=text))

    def _interrupted(self) -> ToolOutcome:
        """What became of the attempt before this one, as far as anybody knows."""
        return results.interrupted(self._tool.name, published_before() or self._input.published)

    async def _before(self) -> Before:
        try:
            before = await intent_before(self._client, self._input)
        except asyncio.CancelledError:
            raise Stopped(stop_reason()) from None
        if before.went_on is not None and before.went_on.usage is not None:
            self._output.spend(before.went_on.usage)
        return before

    async def _announce(self) -> None:
        """Fence off the earlier attempts, before anything of this one runs (spec §4.6)."""
        me = AnnounceInput(run=self._input.run, attempt=self._attempt)
        request = f"announce-{me.run}-{me.attempt}"
        announcing = start_update(call_of(self._client, self._input), ANNOUNCE, me, request)
        try:
            await asyncio.shield(announcing)
        except StaleRun:
            raise Stopped("stale") from None
        except RPCError as error:  # nothing of this attempt has run yet, so the next one may
            raise ApplicationError(f"the call could not be told of a rerun: {error.message}") from error
        except asyncio.CancelledError:
            announcing.cancel()
            raise Stopped(stop_reason()) from None

    async def clean_up(self) -> str:
        """Run the cancel hook; why it failed, or nothing.

        Raises:
            Stopped: by the platform.
        """
        hook = self._tool.cancel
        try:
            arguments = self._arguments()
        except BadArguments as error:
            return f"the arguments no longer fit: {error.text}"
        assert hook is not None
        try:
            ended = await self._hooked(hook, arguments, Output(lambda: None), "clean-up")
        except TimedOut:
            return f"the hook gave no answer in {HOOK_SECONDS:g} s"
        if ended.error is None:
            return ""
        activity.logger.warning("The cancel hook of %s failed", self._tool.name, exc_info=ended.error)
        return bound_text(f"{type(ended.error).__name__}: {ended.error}", max_bytes=1024).text

    async def _hooked(self, hook: Callable[..., Any], arguments: BaseModel, output: Output, purpose: Purpose) -> Ended:
        stop = threading.Event()
        api = RunApi(self._host, self._input, output, stop, purpose=purpose)
        offered = self._tool.call_arguments(arguments) | {API_PARAMETER: api}
        limit = min(HOOK_SECONDS, self._input.call.timeout)
        return await self._isolated(lambda: hook(**_accepted(hook, offered)), api, stop, limit)

    async def _ask(self, arguments: BaseModel, output: Output) -> ToolOutcome | None:
        hook = self._tool.reconcile
        if hook is None:
            return None
        try:
            ended = await self._hooked(hook, arguments, output, "reconcile")
        except TimedOut:
            limit = min(HOOK_SECONDS, self._input.call.timeout)
            activity.logger.warning("The reconcile hook of %s gave no answer in %g s", self._tool.name, limit)
            return None
        if ended.error is not None:
            activity.logger.warning("The reconcile hook of %s failed", self._tool.name, exc_info=ended.error)
            return None
        if ended.value is None:
            return None
        return await self._outcomes.of_value(
            self._tool, ended.value, output, self._diagnostics, nested=self._input.nested
        )

    async def _run(self, arguments: BaseModel) -> ToolOutcome | ParkRequest | StepRequest:
        count_run(self._input)
        tool, stop = self._tool, threading.Event()
        api = RunApi(self._host, self._input, self._output, stop)
        timeout = self._input.call.timeout
        try:
            ended = await self._isolated(self._code(arguments, api, stop), api, stop, timeout)
        except TimedOut:
            return results.timed_out(tool.name, timeout, self._output.tail, self._diagnostics)
        if api.park is not None:
            return api.park
        if isinstance(ended.error, ForeignPark):
            return results.invalid_park(tool.name, str(ended.error), self._output.tail, self._diagnostics)
        if ended.error is not None:
            return self._failed(ended.error)
        if isinstance(ended.value, Sleep | Wait):
            return await self._parked(ended.value, api.server_now)
        if isinstance(ended.value, StepRequest):
            return ended.value
        return await self._outcomes.of_value(
            tool, ended.value, self._output, self._diagnostics, nested=self._input.nested
        )

    def _code(self, arguments: BaseModel, api: RunApi, stop: threading.Event) -> Callable[[], Any]:
        """The tool's function, inside the wrappers when there are any."""

        def values(changed: dict[str, Any]) -> dict[str, Any]:
            used = self._arguments(changed) if changed else arguments
            return self._tool.call_arguments(used) | ({API_PARAMETER: api} if self._tool.takes_api else {})

        if not self._wraps:
            return partial(self._tool.function, **values({}))
        remark = partial(api.diagnostic, _abandoned(self._grace), severity="warn", code="abandoned")
        call = _told(self._input)
        return Wrapped(self._wraps, call, self._tool.function, values, stop, self._grace, remark).run

    async def _parked(self, wanted: Sleep | Wait, now: datetime) -> ToolOutcome | ParkRequest:
        """What can be checked without knowing what the call holds; the call itself checks the rest."""
        try:
            if isinstance(wanted, Wait):
                waited = park_on(wanted, now)
                await check_no_cycle(self._client, self._input.task_id, waited.on)
                return ParkRequest(kind="park", on=waited.on, policy=waited.policy, checkpoint=waited.checkpoint)
            found = park(wanted, Box(), now)
            if unknown := next((key for key in found.keys if key.signal not in self._host.registry.signals), None):
                raise InvalidPark(f"no signal is named {unknown.signal!r}; declare it in the extension's signals")
        except InvalidPark as error:
            return results.invalid_park(self._tool.name, str(error), self._output.tail, self._diagnostics)
        ask = show_ask(self._host.registry.redact, found.ask, self._tool.name)
        return ParkRequest(kind="park", until=found.until, keys=found.keys, checkpoint=found.checkpoint, ask=ask)

    def _failed(self, error: BaseException) -> ToolOutcome:
        if isinstance(error, RetryTool) and self._may_rerun and self._attempt < _max_attempts():
            text = bound_text(f"{self._tool.name} asks to be run again: {error}", max_bytes=1024).text
            raise ApplicationError(text, self.progress, type=RETRY_TOOL, category=ApplicationErrorCategory.BENIGN)
        return results.tool_error(self._tool.name, error, self._output.tail, self._diagnostics)

    async def _isolated(self, code: Callable[[], Any], api: RunApi, stop: threading.Event, seconds: float) -> Ended:
        thread = ToolThread(code, stop, f"tarry-{self._tool.name}")
        try:
            ended = await thread.wait(seconds)
            if ended is None:
                await self._end(thread, api)
                raise TimedOut
        except asyncio.CancelledError:
            ended = thread.ended
            if ended is None:
                raise await self._stop(thread, api) from None
        finally:
            api.close()
        self._diagnostics = api.diagnostics
        return ended

    async def _stop(self, thread: ToolThread, api: RunApi) -> Stopped:
        reason = stop_reason()
        if reason == "stale":
            api.close()
        await self._end(thread, api)
        return Stopped(reason)

    async def _end(self, thread: ToolThread, api: RunApi) -> None:
        has_ended = await thread.stop(self._grace)
        self._diagnostics = api.diagnostics
        if not has_ended:
            self._diagnostics += (Diagnostic(severity="warn", message=_abandoned(self._grace), code="abandoned"),)


def progress_before() -> Progress:
    """What the attempt before this one had told by its heartbeats."""
    details = activity.info().heartbeat_details
    return Progress.model_validate(details[0]) if details else Progress()


def published_before() -> str:
    """What the attempt before this one had published."""
    return progress_before().text


def _abandoned(grace: float) -> str:
    return f"It did not end within {grace:g} s of being stopped: its code may still be running."


def _told(input: ToolRunInput) -> HookCall:
    """The call as wrappers are told of it."""
    call = input.call
    return HookCall(
        task_id=input.task_id,
        conversation_id=input.conversation_id,
        caller=input.task_id.rpartition("/")[0],
        tool=call.tool,
        arguments=call.arguments,
        digest=arguments_digest(call.tool, call.arguments),
    )


def _accepted(hook: Callable[..., Any], offered: dict[str, Any]) -> dict[str, Any]:
    """Those of `offered` that `hook` declares; a hook need not repeat every parameter of its tool."""
    parameters = inspect.signature(hook).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return offered
    return {parameter.name: offered[parameter.name] for parameter in parameters if parameter.name in offered}


def _max_attempts() -> int:
    policy = activity.info().retry_policy
    # 0 is Temporal's word for no limit.
    return min(MAX_ATTEMPTS, policy.maximum_attempts or MAX_ATTEMPTS) if policy else MAX_ATTEMPTS
