"""Deliveries to a call that waits at its gates: what may wake it is judged by the very pass that it wakes to.

One activity in place of two (spec §5.7). Whatever is not as simple as that goes the ordinary road.
"""

from __future__ import annotations

from collections.abc import Sequence

from signals.box import Box
from signals.parking import Park
from tarry.core.gates import Arrived, Incoming
from tarry.core.task_state import State
from tarry.core.waiting import Verdict
from workflows.supervise import StopSwitch
from workflows.task.gating import Gating
from workflows.task.judging import Arrival, Judging


class GatedJudging(Judging):
    """Asks for verdicts, together with the pass where they may end the park of a call at its gates."""

    def __init__(self, gating: Gating, state: State, box: Box, stop: StopSwitch) -> None:
        super().__init__(stop)
        self._gating = gating
        self._state = state
        self._box = box

    async def verdicts(self, arrivals: Sequence[Arrival]) -> Sequence[Verdict]:
        """A verdict for each; a pass that was made before them counts no more."""
        # A repeat is told what it was told: it changes nothing, and the pass that is there is as good as before.
        if all(self._box.answered(arrival.delivery) for arrival in arrivals):
            return [Verdict()] * len(arrivals)
        self._gating.forget()
        park = self._state.park
        if park is None or self._state.phase != "call" or not self._may_wake(park, arrivals):
            return await super().verdicts(arrivals)
        incoming = [Incoming(delivery=one.delivery, at=one.seen, late=one.late) for one in arrivals]
        found = await self._gating.judge(Arrived.before(tuple(incoming), park, self._box))
        # After a Stop nothing is taken, whatever is said of it.
        if found is None and self._stop.is_set:
            return [Verdict()] * len(arrivals)
        return await super().verdicts(arrivals) if found is None else found

    def _may_wake(self, park: Park, arrivals: Sequence[Arrival]) -> bool:
        """Whether one of them is awaited; not where the history has to say first which came in time."""
        if any(arrival.is_doubtful(park, self._box) for arrival in arrivals):
            return False
        targets = (arrival.delivery.target for arrival in arrivals)
        return any(park.awaits(target) and self._box.state(target).is_open for target in targets)
