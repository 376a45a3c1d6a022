"""What the registry says of what came: told by an activity, since workflow code reads no registry (spec §1.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError

from signals.box import Box, Delivery, Receipt
from signals.parking import Park
from tarry.core.waiting import JUDGE, JudgeInput, Verdict, Verdicts
from workflows import ends, options
from workflows.supervise import StopSwitch


@dataclass
class Arrival:
    """A delivery that waits for its verdict, and its receipt afterwards.

    `number` counts the plain signals of the run from 1, and is 0 for an update, which arrives when it is admitted:
    then `late` is known at once. `problem` says why it could not be read.
    """

    delivery: Delivery
    seen: datetime
    number: int = 0
    late: bool = False
    problem: str = ""
    receipt: Receipt | None = None

    def is_doubtful(self, park: Park, box: Box) -> bool:
        """Whether only the history knows that it came before the deadline of that park, or after it."""
        target = self.delivery.target
        return self.number > 0 and park.is_over(self.seen) and park.awaits(target) and box.state(target).is_open


class Judging:
    """Asks for verdicts alone."""

    def __init__(self, stop: StopSwitch) -> None:
        self._stop = stop

    async def verdicts(self, arrivals: Sequence[Arrival]) -> Sequence[Verdict]:
        """A verdict for each; that they could not be judged, where the registry says nothing at all."""
        unjudged = [Verdict(invalid="it could not be judged")] * len(arrivals)
        input = JudgeInput(deliveries=tuple(arrival.delivery for arrival in arrivals))
        # Not a local activity: when a query meets one in its workflow task, its result comes to the code after the
        # signals of the next task, and before them on replay.
        judging = workflow.start_activity(JUDGE, input, result_type=RawValue, **options.JUDGE)
        try:
            found = ends.read(await self._stop.watch(judging), Verdicts)
        except ActivityError:
            return unjudged
        return found.verdicts if found is not None and len(found.verdicts) == len(arrivals) else unjudged
