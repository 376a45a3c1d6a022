"""Every timeout, retry policy and start option of the workflows, in one table."""

from __future__ import annotations

from datetime import timedelta
from typing import TypedDict

from temporalio.common import RetryPolicy, SearchAttributePair, TypedSearchAttributes, WorkflowIDReusePolicy
from temporalio.workflow import ActivityCancellationType, ActivityConfig, LocalActivityConfig, ParentClosePolicy

from tarry.attributes import CONVERSATION, STATE, TOOL, WORKER
from tarry.core.keeping import DIGEST_MEMO
from tarry.core.protocol import ResolvedCall, RunSettings
from tarry.core.text import bound_text

ONCE = RetryPolicy(maximum_attempts=1)

TOOL_BACKSTOP = timedelta(minutes=1)
"""How long past its own timeout a tool's activity may take to say so."""

RETRY_PAUSE = timedelta(seconds=1)

MODEL_TIMEOUT = timedelta(hours=2)
"""A backstop: a healthy stream may be slow, a stalled one ends by its idle limit."""

STORE: ActivityConfig = {
    "start_to_close_timeout": timedelta(seconds=30),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)),
}
"""Reads and writes of the store: harmless to repeat, so repeated until the store is back."""

LOOKUP: LocalActivityConfig = {
    "start_to_close_timeout": timedelta(seconds=5),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=2),
}
"""A quick look; a local activity that goes on failing would write an event every few seconds."""

JUDGE: ActivityConfig = {
    "start_to_close_timeout": timedelta(seconds=10),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=5),
    "summary": "judge deliveries",
}
"""What the registry says of deliveries: a matter of milliseconds, of two seconds where a validator never ends."""

HOOKS: ActivityConfig = {
    "start_to_close_timeout": timedelta(seconds=70),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=5),
    "summary": "ask the hooks",
}
"""Hooks that do IO, or that could not be asked quickly."""

REFEREE: ActivityConfig = {
    "start_to_close_timeout": timedelta(seconds=60),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)),
    "summary": "which came first, the signal or the deadline?",
}

SEND: ActivityConfig = {
    "start_to_close_timeout": timedelta(seconds=30),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)),
    "summary": "send from the outbox",
}

CARRY_OUT: ActivityConfig = {
    "start_to_close_timeout": timedelta(minutes=2),
    "heartbeat_timeout": timedelta(seconds=8),
    "retry_policy": RetryPolicy(initial_interval=timedelta(milliseconds=500), maximum_interval=timedelta(seconds=15)),
}
"""An order of a tree of agents: harmless to repeat, so repeated until it is acknowledged."""

LOOK_AFTER: ActivityConfig = {
    "start_to_close_timeout": timedelta(seconds=30),
    "schedule_to_close_timeout": timedelta(minutes=1),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1)),
    "summary": "was its conversation ended by force?",
}
"""A stopped run waits for it: what it could not tell, the worker's next look does."""

TERMINATE: ActivityConfig = {
    "start_to_close_timeout": timedelta(seconds=30),
    "retry_policy": RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30)),
    "summary": "end by force what did not stop in time",
}

SALVAGE: ActivityConfig = {
    "start_to_close_timeout": timedelta(minutes=2),
    "retry_policy": RetryPolicy(maximum_attempts=5),
}

LEAVE_BEHIND: ActivityConfig = {**SALVAGE, "summary": "stop calls that the model does not make again"}

_MOST_TIMEOUT = timedelta(days=36_525)
"""The server takes no negative time, and nobody can count an endless one: a command with either fails its task."""
_MAX_TOOL = 1_000
"""Bytes of a tool's name that lists show; with much more the server ends the workflow that starts the call."""


def _timeout(call: ResolvedCall) -> timedelta:
    """Of one run, and of what the activity takes to say that it was too long."""
    return timedelta(seconds=min(max(call.timeout, 0), _MOST_TIMEOUT.total_seconds())) + TOOL_BACKSTOP


def call_hooks(settings: RunSettings, *, within: timedelta | None) -> ActivityConfig:
    """`HOOKS` of a call, whose lost worker is noticed; after a Stop they have the time of a clean-up."""
    return {
        **HOOKS,
        "heartbeat_timeout": timedelta(seconds=settings.heartbeat_timeout),
        "schedule_to_close_timeout": within,
    }


def adopt(settings: RunSettings) -> ActivityConfig:
    """Following a child of an earlier timeline to its end, however long that takes."""
    return {
        "start_to_close_timeout": timedelta(days=365),
        "heartbeat_timeout": timedelta(seconds=settings.heartbeat_timeout),
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    }


def model_request(settings: RunSettings) -> ActivityConfig:
    """One attempt: the generation retries, durably and with two budgets (spec §6.3)."""
    return {
        "start_to_close_timeout": MODEL_TIMEOUT,
        "heartbeat_timeout": timedelta(seconds=settings.heartbeat_timeout),
        "retry_policy": ONCE,
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
    }


def tool_run(call: ResolvedCall, settings: RunSettings) -> ActivityConfig:
    """An unsafe tool gets one attempt; a safe one is run again by Temporal (spec §4.3)."""
    attempts = settings.restart_limit + 1 if call.replay == "safe" else 1
    return {
        "start_to_close_timeout": _timeout(call),
        "heartbeat_timeout": timedelta(seconds=settings.heartbeat_timeout),
        "retry_policy": RetryPolicy(
            initial_interval=RETRY_PAUSE, maximum_interval=timedelta(seconds=10), maximum_attempts=attempts
        ),
        "cancellation_type": ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        "summary": summary(call),
    }


def reconcile(call: ResolvedCall, settings: RunSettings) -> ActivityConfig:
    """Asking is harmless, so a lost worker is asked again."""
    return {
        "start_to_close_timeout": _timeout(call),
        "heartbeat_timeout": timedelta(seconds=settings.heartbeat_timeout),
        "retry_policy": RetryPolicy(initial_interval=RETRY_PAUSE, maximum_attempts=settings.restart_limit + 1),
        "summary": f"did it happen? {summary(call)}",
    }


def clean_up(call: ResolvedCall, settings: RunSettings, within: timedelta) -> ActivityConfig:
    """Cleaning up is idempotent, so it is tried again, until the Stop's time is over."""
    return {
        "schedule_to_close_timeout": within,
        "heartbeat_timeout": timedelta(seconds=settings.heartbeat_timeout),
        "retry_policy": RetryPolicy(initial_interval=RETRY_PAUSE, maximum_interval=timedelta(seconds=5)),
        "cancellation_type": ActivityCancellationType.ABANDON,
        "summary": f"clean up {summary(call)}",
    }


class ChildOptions(TypedDict):
    """What every child of ours starts with: its close is never a silent kill (spec §1.5)."""

    id: str
    parent_close_policy: ParentClosePolicy
    id_reuse_policy: WorkflowIDReusePolicy
    search_attributes: TypedSearchAttributes
    memo: dict[str, str]
    static_summary: str


def child(
    workflow_id: str, conversation_id: str, digest: str, label: str, call: ResolvedCall | None = None
) -> ChildOptions:
    """Start options of an awaited child: a `call`, or a run. Its attributes cost no event, since they start with it."""
    pairs: list[SearchAttributePair[str]] = [
        SearchAttributePair(STATE, "running"),
        SearchAttributePair(CONVERSATION, conversation_id),
    ]
    if call is not None:
        pairs.append(SearchAttributePair(TOOL, bound_text(call.tool, max_bytes=_MAX_TOOL).text))
        if call.worker:
            pairs.append(SearchAttributePair(WORKER, call.worker))
    return {
        "id": workflow_id,
        "parent_close_policy": ParentClosePolicy.REQUEST_CANCEL,
        "id_reuse_policy": WorkflowIDReusePolicy.REJECT_DUPLICATE,
        "search_attributes": TypedSearchAttributes(pairs),
        "memo": {DIGEST_MEMO: digest},
        "static_summary": label,
    }


def summary(call: ResolvedCall) -> str:
    """A line for the Web UI: the tool and the head of its arguments."""
    shown = call.arguments if call.shown is None else call.shown
    arguments = ", ".join(f"{name}={value!r}" for name, value in shown.items())
    return bound_text(f"{call.tool}({arguments})", max_bytes=150, max_lines=1).text
