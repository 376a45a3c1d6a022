"""How inputs reach an open run, seen from both ends (spec §6.2): a word of mail, and an exchange at a boundary.

All of it by signals between two workflows that both live; a signal to one that has just ended is nothing lost,
since what was taken and not placed goes back.
"""

from __future__ import annotations

import contextlib

from temporalio import workflow
from temporalio.exceptions import FailureError

from tarry.core.mail import BOUNDARY, MAIL, STEER_KEY, STEERED, TAKE, Boundary, MailTold, TakeInput
from tarry.core.run import RunState
from workflows.supervise import StopSwitch


async def tell_mail(generation_id: str, told: MailTold) -> None:
    """Tell an open run that something is queued."""
    with contextlib.suppress(FailureError):
        await workflow.get_external_workflow_handle(generation_id).signal(MAIL, told)


async def hand_over(generation_id: str, boundary: Boundary) -> None:
    """Give a run what it asked for."""
    with contextlib.suppress(FailureError):
        await workflow.get_external_workflow_handle(generation_id).signal(BOUNDARY, boundary)


class Mailbox:
    """A run's end of it: whether there is mail, and what was handed over."""

    def __init__(self, conversation_id: str, stop: StopSwitch) -> None:
        self.has_mail = False
        self.has_steer = False
        self._conversation_id = conversation_id
        self._stop = stop
        self._number = 0
        self._answers: dict[int, Boundary] = {}

    def resume(self, state: RunState) -> None:
        """Go on where an earlier run of the workflow left it."""
        self.has_mail, self.has_steer, self._number = state.has_mail, state.has_steer, state.boundaries

    def leave(self, state: RunState) -> None:
        """Leave it to the next run of the workflow. Numbers go on: a reset conversation may answer an old one anew."""
        state.has_mail, state.has_steer, state.boundaries = self.has_mail, self.has_steer, self._number

    def hear(self, told: MailTold | None) -> None:
        """Something is queued; one that tells no more is of before steers were told of."""
        self.has_mail = True
        self.has_steer = self.has_steer or (told is not None and told.steers)

    async def tell_steers(self, task_id: str) -> None:
        """Tell a call of the first steer that is queued while it is open, or was when it was started."""
        await workflow.wait_condition(lambda: self.has_steer)
        with contextlib.suppress(FailureError):
            await workflow.get_external_workflow_handle(task_id).signal(STEERED.name, {"key": STEER_KEY, "value": {}})

    def take_in(self, boundary: Boundary) -> None:
        """The conversation's answer has come."""
        self._answers[boundary.number] = boundary

    async def ask(self, *, only_look: bool = False) -> Boundary:
        """Take a steer, or look how much is queued; nothing after a Stop."""
        self.has_mail = self.has_steer = False
        self._number += 1
        number = self._number
        take = TakeInput(generation_id=workflow.info().workflow_id, number=number, only_look=only_look)
        with contextlib.suppress(FailureError):
            await workflow.get_external_workflow_handle(self._conversation_id).signal(TAKE, take)
            await workflow.wait_condition(lambda: number in self._answers or self._stop.is_set)
        return self._answers.pop(number, Boundary(number=number))
