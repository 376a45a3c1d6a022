"""A park, as long as it lasts: nothing runs, one timer at most, and everybody can see what it waits for.

It ends by a Stop, by a wake, or by the turn of the run, looked for in this order and only when everything
that came has its receipt: whichever exception or event came first says nothing (spec §3.6, §3.7).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from temporalio import workflow

from signals.box import Box
from signals.parking import Park, Wake, commit, wake
from tarry.attributes import DEADLINE, DECIDED, REGISTRY, STATE, WAITING_FOR
from tarry.core.decisions import DECIDED_MEMO, Decided
from tarry.core.parked_note import labels, parked_details
from tarry.core.task_state import State
from tarry.core.text import bound_text
from tarry.core.waiting import PARKED_MEMO, ParkedNote
from workflows.supervise import StopSwitch
from workflows.task.port import Port


class Rest:
    """One park of one task."""

    def __init__(
        self,
        park: Park,
        box: Box,
        state: State,
        port: Port,
        stop: StopSwitch,
        should_turn_over: Callable[[], bool],
    ) -> None:
        self._park = park
        self._box = box
        self._state = state
        self._port = port
        self._stop = stop
        self._should_turn_over = should_turn_over
        self._rings = False

    async def ended(self) -> Wake | None:
        """Why it ended, taken: its key consumed, or its keys expired. None: by a Stop, or to turn over."""
        alarm = self._alarm()
        try:
            await workflow.wait_condition(self.is_due)
        finally:
            if alarm is not None:
                alarm.cancel()
        # A wake that meets a long history is taken by the next run, or parks that end at once would never turn over.
        reason = None if self._stop.is_set or self._should_turn_over() else self._reason()
        if reason is not None:
            commit(self._park, reason, self._box)
        return reason

    def is_due(self) -> bool:
        """Whether it is over, or to be turned over."""
        if self._stop.is_set:
            return True
        return self._port.is_quiet and (self._reason() is not None or self._state.reask or self._should_turn_over())

    def _reason(self) -> Wake | None:
        # A timer may ring a hair before the clock says so; it means the deadline all the same.
        now = max(workflow.now(), self._park.until) if self._rings and self._park.until else workflow.now()
        return wake(self._park, self._box, now, self._state.ended)

    def _alarm(self) -> asyncio.Task[None] | None:
        # No timer where the park is over at once, or as soon as all that came is judged.
        if self._park.until is None or self._park.is_over(workflow.now()) or self.is_due():
            return None
        return asyncio.ensure_future(self._ring())

    async def _ring(self) -> None:
        assert self._park.until is not None
        ahead = self._park.until - workflow.now()
        await workflow.sleep(ahead, summary=bound_text("the deadline of the wait", max_bytes=200).text)
        self._rings = True


def show_parked(park: Park, note: ParkedNote, state: str, asked_under: str) -> None:
    """Put a new park into lists: two events (spec §9.1, §9.2)."""
    deadline = DEADLINE.value_unset() if park.until is None else DEADLINE.value_set(park.until)
    waiting_for = WAITING_FOR.value_set(labels(park.keys)) if park.keys else WAITING_FOR.value_unset()
    # Found by it when other hooks count (spec §5.3). Like the memo it stays, and is read together with the state.
    hooks = [REGISTRY.value_set(asked_under)] if state == "gated" else []
    workflow.upsert_search_attributes([STATE.value_set(state), waiting_for, deadline, *hooks])
    workflow.upsert_memo({PARKED_MEMO: note})


def show_details(park: Park, note: ParkedNote) -> None:
    """Say it in the Web UI; costs no event, and is said anew in each run."""
    workflow.set_current_details(parked_details(workflow.info().workflow_id, park, note))


def show_running(decided: Sequence[Decided] = ()) -> None:
    """The park is over. The memo stays: it is read together with the state.

    `decided`: what people decided so far, where it ended by such a decision. One event more (spec §23.7).
    """
    workflow.set_current_details("")
    when = [DECIDED.value_set(decided[-1].at)] if decided else []
    workflow.upsert_search_attributes(
        [STATE.value_set("running"), WAITING_FOR.value_unset(), DEADLINE.value_unset(), *when]
    )
    if decided:
        workflow.upsert_memo({DECIDED_MEMO: tuple(decided)})
