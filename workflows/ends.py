"""How an activity ended, read from what Temporal says of it. These come from outside, so hardly anything raises."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, TimeoutType

from tarry.codec.unreadable import MissingKey, UnreadablePayload
from tarry.core import run as machine
from tarry.core.compaction_view import ContextFull
from tarry.core.messages import Usage
from tarry.core.protocol import GIVEN_BACK, PAUSED, WORKER_SHUTDOWN, ModelAnswer, ModelFailure, ModelTurn, Progress

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")


def is_worker_lost(error: ActivityError) -> bool:
    """Whether the worker vanished: its heartbeats stopped."""
    return isinstance(error.cause, TimeoutError) and error.cause.type == TimeoutType.HEARTBEAT


def is_too_long(error: ActivityError) -> bool:
    """Whether the activity hit a time limit while its worker lived."""
    return isinstance(error.cause, TimeoutError) and error.cause.type != TimeoutType.HEARTBEAT


def is_given_back(error: ActivityError) -> bool:
    """Whether the worker gave the activity back: it shut down cleanly, or somebody took the activity from it."""
    return isinstance(error.cause, ApplicationError) and error.cause.type in (WORKER_SHUTDOWN, GIVEN_BACK)


def is_paused(error: ActivityError) -> bool:
    """Whether somebody paused the activity, and its worker gave it back."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == PAUSED


def is_keyless(error: ActivityError) -> bool:
    """Whether a worker took the activity that lacks the key of its input: it began nothing (spec §20.3)."""
    cause = error.cause.cause if isinstance(error.cause, ApplicationError) else None
    return isinstance(cause, ApplicationError) and cause.type == MissingKey.__name__


def published(error: ActivityError) -> str:
    """What an activity that was cut off had published by its heartbeats; of a long text the tail, and it says so."""
    progress = _progress(error)
    return f"[{progress.offset} characters earlier]{progress.text}" if progress.offset else progress.text


def reported(error: ActivityError) -> Usage | None:
    """What an activity that was cut off had reported of its spending by its heartbeats."""
    return _progress(error).usage


def _progress(error: ActivityError) -> Progress:
    cause = error.cause
    details: Any = None
    if isinstance(cause, TimeoutError) and cause.last_heartbeat_details:
        details = cause.last_heartbeat_details[0]
    elif isinstance(cause, ApplicationError) and cause.details:
        details = cause.details[0]
    try:
        return Progress.model_validate(details)
    except ValidationError:
        return Progress()


def of_model_call(error: ActivityError, *, stopped: bool) -> machine.Event:
    """What it means for a run, or a compaction, that its request brought no answer at all."""
    partial = published(error)
    if stopped:
        return machine.Aborted(partial)
    if is_worker_lost(error):
        return machine.WorkerLost(partial)
    if is_given_back(error) or is_keyless(error):
        return machine.WorkerStopped(partial)
    if is_paused(error):
        return machine.WorkerStopped(partial, paused=True)
    if is_too_long(error):
        return machine.Failed(ModelFailure(error="retryable", text="it took too long", partial=partial))
    return machine.Failed(ModelFailure(error="permanent", text=str(error.cause or error)))


def of_model_answer(answer: ModelAnswer | None) -> machine.Event:
    """What it means for a run that its request brought this; None: nothing that can be read."""
    match answer.root if answer is not None else None:
        case None:
            return machine.Failed(ModelFailure(error="retryable", text="the answer was not readable"))
        case ModelTurn() as turn:
            return machine.Responded(turn)
        case ContextFull() as full:
            return machine.Full(full)
        case failure:
            return machine.Failed(failure)


def cleanup_problem(error: ActivityError) -> str:
    """Why a cancel hook is not known to have cleaned up."""
    if isinstance(error.cause, TimeoutError):
        last = f"; before: {error.cause.cause}" if error.cause.cause else ""
        return f"Its cancel hook had no success in time{last}."
    return f"Its cancel hook failed: {error.cause or error}"


def read(result: RawValue, as_type: type[M]) -> M | None:
    """The result of an activity, or None when it is not what it should be.

    Anybody with a shell can complete an activity by hand; a result that does not decode would wedge the workflow.

    Raises:
        UnreadablePayload: it is one that a setting of the codec opens: taken for none, it would be lost (spec §20.3).
    """
    try:
        return workflow.payload_converter().from_payload(result.payload, as_type)
    except UnreadablePayload:
        raise
    except Exception:
        return None


def read_signal(args: Sequence[RawValue], as_type: type[T]) -> T | None:
    """The one input of a plain signal; None when there is none of that type."""
    if len(args) != 1:
        return None
    try:
        found: object = workflow.payload_converter().from_payload(args[0].payload, as_type)
    # Anything at all may come from outside, and an exception here would wedge the workflow.
    except Exception:
        return None
    return found if isinstance(found, as_type) else None
