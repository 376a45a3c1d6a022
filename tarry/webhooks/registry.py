"""Who expects which webhook, kept in Temporal itself: one workflow for each match of a source.

The target stands in the workflow's memo, so that a look-up is a `describe` and needs no worker, also for some time
after the workflow's end. A webhook that nobody expects yet starts the workflow without a target and waits in it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import (
    Client,
    WorkflowExecutionStatus,
    WorkflowUpdateFailedError,
    WorkflowUpdateRPCTimeoutOrCancelledError,
)
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from signals.tokens import SignalKey
from tarry.client.errors import ServerUnavailable, reaching_server
from tarry.connect import sending_inline
from tarry.core.expectation import (
    EXPECT,
    EXPECTATION,
    EXPECTED_FOR,
    KEEP,
    KEPT_BYTES,
    MATCH_TAKEN,
    MAX_KEPT,
    TARGET_MEMO,
    ExpectationInput,
    Kept,
    Target,
    expectation_id,
    label,
    match_problem,
)
from tarry.webhooks.errors import MatchTaken

_TELLING = timedelta(seconds=10)
"""How long a worker may take to note a target and to deliver what was kept for it."""

_REUSE = (
    WorkflowIDReusePolicy.REJECT_DUPLICATE,
    WorkflowIDReusePolicy.ALLOW_DUPLICATE,
    WorkflowIDReusePolicy.ALLOW_DUPLICATE,
)


@dataclass(frozen=True)
class Found:
    """An expectation as a look-up finds it. `is_full`: it keeps as many webhooks for nobody as it may."""

    target: Target | None
    is_open: bool
    is_full: bool


@reaching_server()
async def expect(
    client: Client,
    source: str,
    match: str,
    task_id: str,
    key: SignalKey,
    *,
    task_queue: str,
    expected_for: timedelta = EXPECTED_FOR,
) -> None:
    """Have webhooks of `source` that tell of `match` delivered to `key` of a task; durable when it returns.

    Call it before the outside work is started. A webhook that came earlier is delivered as well, before this returns
    when a worker serves `task_queue`. Once more with the same target changes nothing. After `expected_for` it
    ends by itself; a match should serve one wait only, for its webhooks can still come later.

    Raises:
        MatchTaken: another task, or another key, expects that match or not long ago did.
        ServerUnavailable: no server answers; try again.
        ValueError: the match or the key cannot be one.
    """
    if (problem := match_problem(match) or key.problem) is not None:
        raise ValueError(problem)
    target = Target(task_id=task_id, signal=key.signal, key=key.key)
    input = ExpectationInput(target=target, expected_for=expected_for)
    for reuse in _REUSE:
        try:
            return await _start(client, source, match, input, task_queue, reuse)
        except WorkflowAlreadyStartedError:
            found = await find(client, source, match)
            if found is not None and await _is_settled(client, source, match, found, target):
                return None
    raise ServerUnavailable(f"what expects {label(source, match)} changes all the time: try again")


async def _is_settled(client: Client, source: str, match: str, found: Found, target: Target) -> bool:
    """Whether the workflow that is there has the target now; one that is over needs a successor."""
    if found.target not in (None, target):
        raise MatchTaken(_taken(source, match))
    if not found.is_open:
        return False
    return found.target == target or await _tell(client, source, match, target)


async def _tell(client: Client, source: str, match: str, target: Target) -> bool:
    handle = client.get_workflow_handle(expectation_id(source, match))
    try:
        try:
            # The SDK's timeout bounds each request; once the update is admitted it would go on asking for ever.
            async with asyncio.timeout(_TELLING.total_seconds()):
                await handle.execute_update(EXPECT, target, rpc_timeout=_TELLING)
        except (TimeoutError, WorkflowUpdateRPCTimeoutOrCancelledError):
            _pass_cancellation()
            await handle.signal(EXPECT, target)
    except WorkflowUpdateFailedError as error:
        if isinstance(error.cause, ApplicationError) and error.cause.type == MATCH_TAKEN:
            raise MatchTaken(_taken(source, match)) from None
        raise
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        return False  # it ended in between
    return True


def _pass_cancellation() -> None:
    """The SDK tells a cancellation of ours as if it were a timeout."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _taken(source: str, match: str) -> str:
    return f"another wait expects {label(source, match)}: give each wait a match of its own"


async def find(client: Client, source: str, match: str) -> Found | None:
    """What is known of a match: open or over, None when it never was or is forgotten. Needs no worker."""
    try:
        described = await client.get_workflow_handle(expectation_id(source, match)).describe()
    except RPCError as error:
        if error.status == RPCStatusCode.NOT_FOUND:
            return None
        raise
    told = described.raw_description.workflow_execution_info
    return Found(
        target=await described.memo_value(TARGET_MEMO, None, type_hint=Target),
        is_open=described.status == WorkflowExecutionStatus.RUNNING,
        is_full=told.history_length > MAX_KEPT or told.history_size_bytes > KEPT_BYTES,
    )


async def keep(
    client: Client, source: str, match: str, kept: Kept, *, task_queue: str, unexpected_for: timedelta, anew: bool
) -> None:
    """Leave a webhook with the expectation, which is started if there is none; `anew`: also when one is over.

    Raises:
        WorkflowAlreadyStartedError: it is over and not to be started anew.
    """
    reuse = WorkflowIDReusePolicy.ALLOW_DUPLICATE if anew else WorkflowIDReusePolicy.REJECT_DUPLICATE
    input = ExpectationInput(unexpected_for=unexpected_for)
    # What comes from outside must not lie in a store that the workers do not share.
    await _start(sending_inline(client), source, match, input, task_queue, reuse, kept)


async def _start(
    client: Client,
    source: str,
    match: str,
    input: ExpectationInput,
    task_queue: str,
    reuse: WorkflowIDReusePolicy,
    kept: Kept | None = None,
) -> None:
    signal: dict[str, Any] = {} if kept is None else {"start_signal": KEEP, "start_signal_args": [kept]}
    conflict = WorkflowIDConflictPolicy.FAIL if kept is None else WorkflowIDConflictPolicy.USE_EXISTING
    await client.start_workflow(
        EXPECTATION,
        input,
        id=expectation_id(source, match),
        task_queue=task_queue,
        id_reuse_policy=reuse,
        id_conflict_policy=conflict,
        memo={} if input.target is None else {TARGET_MEMO: input.target},
        static_summary=label(source, match),
        **signal,
    )
