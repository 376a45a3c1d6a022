"""The compactions of a conversation, one after the other, beside its runs (spec §11.3)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from tarry.core.agent import Agent
from tarry.core.compaction_protocol import COMPACT, CompactInput, LargeInput, SummaryInput
from tarry.core.compaction_view import CompactionStatus, CompactionView
from tarry.core.compactions import Asked
from tarry.core.conversation import ConversationState
from tarry.core.inbox import Full
from tarry.core.protocol import DUPLICATE
from workflows.conversation.refusing import refusing
from workflows.conversation.room import Room
from workflows.ends import read_signal
from workflows.summarising import summarise
from workflows.supervise import StopSwitch


class Compactor:
    """Works off what is asked for. A conversation with some of it under way does not turn over."""

    def __init__(self, state: ConversationState, room: Room) -> None:
        self._state = state
        self._room = room
        self._stop = StopSwitch()
        self._is_running = False
        workflow.set_update_handler(COMPACT, self._update, validator=self._check)

    @property
    def is_busy(self) -> bool:
        """Whether a compaction is asked for and not over."""
        return bool(self._state.compactions.asked)

    def _update(self, input: CompactInput) -> CompactionView:
        self._room.updates += 1
        return self._ask(input)

    def _ask(self, input: CompactInput) -> CompactionView:
        """A person asks."""
        if not input.request_id:
            input = input.model_copy(update={"request_id": str(workflow.uuid4())})
        return self._state.compactions.ask(input)

    def _check(self, input: CompactInput) -> None:
        """Refuse what cannot be taken, and repeats, before they leave an event."""
        if (known := self._state.compactions.views.get(input.request_id)) is not None:
            raise ApplicationError("known request id", known, type=DUPLICATE)
        with refusing():
            self._state.compactions.check_room()
        self._room.check_update()

    def ask_by_signal(self, args: Sequence[RawValue]) -> None:
        """A person asks from any shell, or with no worker up."""
        input = read_signal(args, CompactInput)
        if input is None:
            self._state.refuse(f"{COMPACT}: not readable")
            return
        try:
            self._ask(input)
        except Full as error:
            self._state.refuse(f"{COMPACT}: {error}", input.request_id)

    def hear(self, args: Sequence[RawValue]) -> None:
        """The context of the open run has grown large, as that tells by a signal."""
        large, run = read_signal(args, LargeInput), self._state.open
        if large is not None and run is not None and run.generation_id == large.generation_id:
            self._state.compactions.ask_by_itself(
                run.settings, generation_id=run.generation_id, run_start=run.start, cutoff=large.cutoff
            )

    def stop(self) -> None:
        """End what is asked for; a summary that is there stays, and is placed."""
        self._state.compactions.withdraw(after=1 if self._is_running else 0)
        self._stop.set()

    async def serve(self) -> None:
        """One compaction after the other, for as long as the run lasts."""
        while True:
            await workflow.wait_condition(lambda: self.is_busy)
            self._is_running, self._stop = True, StopSwitch()
            asked = self._state.compactions.asked[0]
            answer = await summarise(self._input(asked), asked.settings, self._stop, self._show)
            self._is_running = False
            self._state.end_compaction(answer, workflow.now(), workflow.info().workflow_id)

    def _show(self, status: CompactionStatus, attempt: int, error: str, retry_at: datetime | None) -> None:
        request_id = self._state.compactions.asked[0].request_id
        self._state.compactions.show(request_id, status, attempt=attempt, detail=error, retry_at=retry_at)

    def _agent(self, asked: Asked) -> Agent:
        """Those of the run that it is for; by hand those of now, but for what was asked for."""
        chosen, now = asked.settings.agent, self._state.choices.agent
        if chosen is None:
            return now
        return chosen.over(now) if asked.reason == "manual" else chosen

    def _input(self, asked: Asked) -> SummaryInput:
        """Pinned here: what comes into the conversation meanwhile is not in it."""
        run = self._state.open
        end = self._state.transcript.end if run is None else run.start
        return SummaryInput(
            conversation_id=workflow.info().workflow_id,
            generation_id=asked.generation_id,
            run_start=asked.run_start or end,
            cutoff=asked.cutoff or end,
            context_start=self._state.transcript.context_start,
            reason=asked.reason,
            instructions=asked.instructions,
            sizes=asked.settings.sizes,
            agent=self._agent(asked).without_instructions(),
            idle_timeout=asked.settings.model_idle_timeout,
        )
