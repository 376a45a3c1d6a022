"""How much one workflow run of a conversation takes in: it cannot continue as new while a run is open (spec §1.5).

Updates are refused first, before they leave an event; then plain signals do no more than be refused. What is left then
is for the end of the run and for Stop.
"""

from __future__ import annotations

from collections.abc import Sequence

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tarry.core.choices import CONFIGURE
from tarry.core.compaction_protocol import COMPACT, LARGE
from tarry.core.protocol import INBOX_FULL, SUBMIT, WITHDRAW
from tarry.core.waiting import CROWDED
from workflows import patches
from workflows.task.port import MAX_UPDATES

EVENTS = 48_000
"""Temporal terminates a workflow at 51,200 events of one run. The rest is for the end of the run and for Stop."""
SIGNALS = 10_000
"""Plain signals that Temporal takes in one run."""
SIGNAL_EVENTS = 4
"""That a signal leaves which does nothing: itself, and a workflow task. All three decide on commands: change them only
behind `workflow.patched`."""
BYTES = 24 * 1024 * 1024
"""Of history; Temporal terminates a workflow at 50 MB. Whoever signals megabytes all the same is not held up."""

FULL = (
    "this conversation has taken in all that it may while one run is open: wait for the end of the run, or stop it, "
    "then send it again"
)

_REFUSED = (SUBMIT, WITHDRAW, COMPACT, CONFIGURE, LARGE)
"""Stop and what a run asks for are heard to the end."""


class Room:
    """Counts what came to this workflow run; after a turn there is room again."""

    def __init__(self) -> None:
        self.updates = 0
        self.signals = 0

    @property
    def is_full(self) -> bool:
        """Whether there is room only for the signals that Temporal lets through still, each doing nothing."""
        info = workflow.info()
        to_come = SIGNAL_EVENTS * max(SIGNALS - self.signals, 0)
        return info.get_current_history_length() + to_come > EVENTS or info.get_current_history_size() > BYTES

    def check_update(self, *, has_signal: bool = True) -> None:
        """For an update's validator: whether one more is taken; `has_signal`: a plain signal says the same.

        Raises:
            ApplicationError: CROWDED, then the plain signal is the road; or INBOX_FULL.
        """
        if self.is_full or (self.updates >= MAX_UPDATES and not has_signal):
            raise ApplicationError(FULL, type=INBOX_FULL)
        if self.updates >= MAX_UPDATES:
            raise ApplicationError("this run has taken as many updates as it may", type=CROWDED)

    def refuses_signal(self, name: str) -> bool:
        """A plain signal came: whether nothing more is done for it than to remember that."""
        self.signals += 1
        return name in _REFUSED and self.is_full and patches.ROOM.is_passed()


def request_named(args: Sequence[RawValue]) -> str:
    """The request id that a plain signal is about, as far as it can be read."""
    try:
        found = workflow.payload_converter().from_payload(args[0].payload)
    # Anything at all may come from outside, and an exception here would wedge the workflow.
    except Exception:
        return ""
    named = found.get("request_id") if isinstance(found, dict) else found
    return named if isinstance(named, str) else ""
