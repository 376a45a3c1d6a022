"""What a run has placed and its conversation has forgotten, since it was reset to before that (spec §1.7).

Pure. The entry of a steer holds all that its record needs, so that a repeat finds it, and one that was put into the
inbox again is not placed twice.
"""

from __future__ import annotations

from datetime import datetime

from tarry.core.inbox import Inbox
from tarry.core.open_run import OpenRun
from tarry.core.protocol import RunResult, SubmitInput


def has_forgotten(run: OpenRun, result: RunResult) -> bool:
    """Whether the run has placed what its conversation does not know to have handed over."""
    return not {*result.places} <= {item.request_id for item in run.taken}


def recalled(run: OpenRun, inbox: Inbox, result: RunResult, now: datetime) -> OpenRun:
    """The run with what it placed and is queued again, and with the steers that nobody has sent again.

    A steer that stands in a page, no longer in the open tail, and that nobody has sent again is not known.
    """
    texts = {entry.index: entry.message.text for entry in result.entries if entry.message is not None}
    for request_id in result.placed:
        text = texts.get(result.places.get(request_id, -1))
        if inbox.find(request_id) is None and text is not None:
            inbox.admit(SubmitInput(content=text, request_id=request_id, when_busy="steer"), now)
    again = [item for item in inbox.queue if item.request_id in result.places]
    inbox.take(again, run.run)
    return run.model_copy(update={"taken": (*run.taken, *again)})
