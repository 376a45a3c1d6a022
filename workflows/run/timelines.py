"""Calls that earlier timelines of a run left behind: stopped when the model does not make them again (spec §1.7)."""

from __future__ import annotations

import contextlib

from temporalio import workflow
from temporalio.exceptions import ActivityError

from tarry.core.keeping import LEAVE_BEHIND, LeaveBehind, LeftBehind
from tarry.core.protocol import ModelTurn, ResolvedCall, digest
from tarry.core.run import RunState
from tarry.core.text import canonical_json
from workflows import options


def fingerprint(call: ResolvedCall) -> str:
    """What makes two calls the same: the tool and its arguments."""
    return digest(canonical_json([call.tool, call.arguments]))


async def leave_behind(state: RunState, answer: ModelTurn | None) -> None:
    """The model has answered, None: the run ends. What else earlier timelines went on with is stopped.

    Only in a run that was reset, as a worker has told, and until its timelines have parted.
    """
    if answer is not None:
        state.timeline.enter(answer.timeline)
    if state.timeline.has_parted or (answer is not None and answer.message.is_empty):
        return
    calls = answer.calls if answer is not None else ()
    input = LeaveBehind(
        generation_id=workflow.info().workflow_id,
        turn=state.turn,
        made={slot: fingerprint(call) for slot, call in enumerate(calls) if call.error is None},
        ends=answer is None,
    )
    # Calls that nobody could stop are seen in lists; the run has its end all the same.
    with contextlib.suppress(ActivityError):
        found = await workflow.execute_activity(LEAVE_BEHIND, input, result_type=LeftBehind, **options.LEAVE_BEHIND)
        state.timeline.has_parted = found.has_parted
