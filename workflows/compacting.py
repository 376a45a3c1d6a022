"""The compactions of a conversation, one after the other, beside its runs (spec §11.3)."""

from __future__ import annotations

from datetime import datetime

from temporalio import workflow

from tarry.core.compacting import CompactInput, SummaryInput
from tarry.core.compaction_view import CompactionStatus, CompactionView
from tarry.core.compactions import Asked
from tarry.core.conversation import ConversationState
from workflows.compaction import summarise
from workflows.supervise import StopSwitch


class Compactor:
    """Works off what is asked for. A conversation with some of it under way does not turn over."""

    def __init__(self, state: ConversationState) -> None:
        self._state = state
        self._stop = StopSwitch()
        self._is_running = False

    @property
    def is_busy(self) -> bool:
        """Whether a compaction is asked for and not over."""
        return bool(self._state.compactions.asked)

    def ask(self, input: CompactInput) -> CompactionView:
        """A person asks; raises as `Compactions.ask`."""
        if not input.request_id:
            input = input.model_copy(update={"request_id": str(workflow.uuid4())})
        return self._state.compactions.ask(input)

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
            agent=(asked.settings.agent or self._state.choices.agent).without_instructions(),
            idle_timeout=asked.settings.model_idle_timeout,
        )
