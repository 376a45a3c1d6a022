"""What becomes of an input, of a view of its conversation. Pure: words for a person, and the entries to show."""

from __future__ import annotations

from tarry.core.live import LiveRun, LiveView
from tarry.core.transcript import Entry

AWAY = "the Temporal server does not answer; it goes on when one does"


def no_worker(queue: str) -> str:
    """Nobody answers there."""
    return f"no worker answers on task queue {queue}; it goes on when one is up"


def doing(view: LiveView, request_id: str, queue: str) -> str:
    """What goes on, or what is waited for, as a person would say it."""
    if view.contact != "up":
        return AWAY if view.contact == "no_server" else no_worker(queue)
    if request_id in view.queued:
        return "queued behind another run"
    return "the run starts" if view.run is None else activity(view.run)


def activity(run: LiveRun) -> str:
    """What a run does."""
    held = [call.task_id for call in run.calls if call.status == "held"]
    if run.held:
        return f"held: {run.held}; tarry retry '{run.generation_id}'"
    if held:
        return f"held; tarry retry '{held[0]}'"
    if run.retry is not None:
        return "the model request failed and is sent again soon"
    if any(call.status in ("gated", "sleeping", "waiting") for call in run.calls):
        return "waits for the world"
    return {"tools": "tools run", "hooks": "hooks are asked"}.get(run.phase, "the model answers")


class Following:
    """Follows one input through the views of its conversation: which entries are its run's, and new."""

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self._run: int | None = None
        self._next = 0
        self.is_over = False

    def take(self, view: LiveView) -> list[Entry]:
        """The entries of its run that were not there at the view before."""
        if self._run is None and self._request_id in view.placed:
            self._run = view.runs
        elif self._run is not None and self._request_id not in view.placed:
            self.is_over = True
        new = [entry for entry in view.entries if entry.run == self._run and entry.index >= self._next]
        self._next = max([self._next, *(entry.index + 1 for entry in new)])
        return new
