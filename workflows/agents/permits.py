"""The permit of a subagent's run, seen from both ends (spec §17.12): the run, and each task that rests and is woken.

All of it by signals between workflows that live, each awaited before the next one leaves, so that they keep their
order. What carries no tree says and asks nothing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from pydantic import BaseModel
from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, FailureError

from tarry.core.run import GenerationInput
from tarry.core.subagents.carrying import LOOK_AFTER
from tarry.core.subagents.protocol import GRANTED, RESTED, WANTS, TurnNotice
from tarry.core.subagents.run_permit import GO_ON, RESTING, WAKING, Notice, Resting, RunPermit, Waking
from tarry.core.task_state import State
from workflows import metering, options, patches
from workflows.ends import read_signal
from workflows.supervise import Holder, StopSwitch

SIGNALS = (GRANTED, RESTING, WAKING)
"""What a run hears of its permit."""


class Permit:
    """A run's end of it."""

    def __init__(self, input: GenerationInput, stop: StopSwitch) -> None:
        self._tree = input.tree
        self._conversation_id = input.conversation_id
        self._stop = stop
        self._state = RunPermit()
        self._was_reset = False
        if input.asks and input.carry is None:
            self._state.ask_first(workflow.now())
        if self._tree:
            # The one thing that a workflow is told of its reset; nothing of a reset to its first task.
            workflow.register_random_seed_callback(lambda _seed: self._reset())

    def _reset(self) -> None:
        self._was_reset = True

    def _hear_of_reset(self) -> None:
        """The run goes on from an earlier point, and what it knows of its permit may not be so any more."""
        if self._was_reset:
            self._was_reset = False
            if patches.BEGUN_AGAIN.is_passed():
                self._state.begin_again(workflow.now())

    @property
    def of(self) -> str:
        """Whom the tasks of this run ask; empty: nobody."""
        return workflow.info().workflow_id if self._tree else ""

    @contextlib.contextmanager
    def open(self, task_id: str) -> Iterator[None]:
        """While a call of the round, or a task of a hook, is open."""
        self._state.begin(task_id)
        try:
            yield
        finally:
            self._state.end(task_id)

    async def regain(self) -> None:
        """Go on when the permit is there again: what was open may have ended without going on. A Stop ends the wait."""
        self._hear_of_reset()
        self._state.need()
        if not self._state.holds:
            began = workflow.now()
            await workflow.wait_condition(lambda: self._state.holds or self._stop.is_set)
            metering.waited_for_permit(workflow.now() - began)

    async def hold(self, holder: Holder, why: str) -> bool:
        """`holder.hold`, which executes nothing either."""
        held = "held"
        with self.open(held):
            self._state.rest(Resting(task_id=held, waits_for="somebody who retries it"))
            released = await holder.hold(why)
        await self.regain()
        return released

    async def serve(self) -> None:
        """Say what is due, one after the other, for as long as the run lasts; after a Stop nothing."""
        if not self._tree:
            return
        while True:
            await workflow.wait_condition(lambda: not self._stop.is_set and self._has_news())
            self._hear_of_reset()
            if (word := self._due()) is None:
                continue
            self._state.said(word)
            if isinstance(word, Waking):
                await _tell(word.task_id, GO_ON, word)
            elif not await _tell(self._tree, _NAMES[word.kind], self._notice(word)):
                self._state.granted(word.number)  # nobody is there who counts

    async def look_after(self) -> None:
        """After a Stop. One without a reason may have come since the conversation was ended by force.

        That tells nobody, so that its turn would hold its permit until a worker looks next (spec §17.15).
        """
        if not self._tree or workflow.cancellation_reason() != "" or not patches.LOOKED_AFTER.is_passed():
            return
        with contextlib.suppress(ActivityError):
            await workflow.execute_activity(LOOK_AFTER, self._tree, **options.LOOK_AFTER)

    def _has_news(self) -> bool:
        return self._was_reset or self._due() is not None

    def _due(self) -> Notice | Waking | None:
        return self._state.due(workflow.now())

    def _notice(self, word: Notice) -> TurnNotice:
        return TurnNotice(
            conversation_id=self._conversation_id,
            generation_id=workflow.info().workflow_id,
            number=word.number,
            waits_for=word.waits_for,
        )

    def take(self, name: str, args: Sequence[RawValue]) -> None:
        """One of `SIGNALS` has come."""
        self._hear_of_reset()
        if name == RESTING and (told := read_signal(args, Resting)) is not None:
            self._state.rest(told)
        elif name == WAKING and (asking := read_signal(args, Waking)) is not None:
            self._state.wake(asking)
        elif name == GRANTED and (granted := read_signal(args, TurnNotice)) is not None:
            self._state.granted(granted.number)


_NAMES = {"rested": RESTED, "wants": WANTS}


class Leave:
    """A task's end of it: its leave to go on once it has rested. `run`: the run that it asks; empty: it asks nobody."""

    def __init__(self, run: str, state: State, stop: StopSwitch) -> None:
        self._run = run
        self._state = state
        self._stop = stop
        self._is_due: Callable[[], bool] | None = None
        self._waits_for = ""
        self._told: Resting | None = None
        self._speaks = False
        self._asked = 0
        self._answered = 0

    def rest(self, is_due: Callable[[], bool], waits_for: str) -> None:
        """The task rests, until `is_due`; one that is due at once tells nobody."""
        if self._run:
            self._is_due, self._waits_for = is_due, waits_for

    async def go_on(self) -> None:
        """Return when the task may go on: at once, unless it told that it rests. A Stop always gets through."""
        self._is_due = None
        if not self._state.rests:
            return
        await workflow.wait_condition(lambda: not self._speaks or self._stop.is_set)
        if not self._stop.is_set:
            self._asked += 1
            asking = Waking(task_id=workflow.info().workflow_id, number=self._asked)
            workflow.set_current_details("It was woken, and waits for a permit to go on.")
            began = workflow.now()
            if await _tell(self._run, WAKING, asking):
                await workflow.wait_condition(lambda: self._answered == self._asked or self._stop.is_set)
            metering.waited_for_permit(workflow.now() - began)
            workflow.set_current_details("")
        self._state.rests, self._told = False, None

    async def serve(self) -> None:
        """Tell the run that the task rests, and which of its children live, whenever that has changed."""
        if not self._run:
            return
        while True:
            await workflow.wait_condition(lambda: self._news() is not None)
            if (news := self._news()) is None:
                continue
            self._told, self._state.rests, self._speaks = news, True, True
            await _tell(self._run, RESTING, news)
            self._speaks = False

    def _news(self) -> Resting | None:
        if self._is_due is None or self._stop.is_set or self._is_due():
            return None
        alive = tuple(child.task_id for child in self._state.children.values() if not child.is_over)
        resting = Resting(task_id=workflow.info().workflow_id, alive=alive, waits_for=self._waits_for)
        return resting if resting != self._told else None

    def take(self, args: Sequence[RawValue]) -> None:
        """The run's answer has come; one to an earlier question says nothing."""
        answer = read_signal(args, Waking)
        if answer is not None and answer.number == self._asked:
            self._answered = answer.number


async def _tell(workflow_id: str, name: str, word: BaseModel) -> bool:
    """Whether it was there to be told."""
    try:
        await workflow.get_external_workflow_handle(workflow_id).signal(name, word)
    except FailureError:
        return False
    return True
