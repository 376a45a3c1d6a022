"""What follows a run whose inputs have settled: its hooks are told, and their tasks start and outlive it (spec §6.5).

Pure. A conversation keeps what is to be told until it is; the tasks leave by its outbox. Their ids are the run's, so
that a run which is told of again, as after a reset, starts none twice.
"""

from __future__ import annotations

from tarry.core.commits import StartTask
from tarry.core.inbox import OWN_IDS
from tarry.core.messages import AssistantMessage, Frozen
from tarry.core.protocol import ResolvedCall, RunResult, RunSettings, SubmitInput, digest
from tarry.core.run_hooks import RunEnd, RunHookAnswer, RunHookInput
from tarry.core.task_state import TaskInput
from tarry.core.text import canonical_json
from tarry.core.writes import Write


class AfterRun(Frozen):
    """A run that hooks are to be told of."""

    input: RunHookInput
    settings: RunSettings

    @classmethod
    def of(cls, generation_id: str, request_ids: tuple[str, ...], settings: RunSettings, result: RunResult) -> AfterRun:
        """What they are told of a run that ended so."""
        settings = settings.for_calls()
        answers = [entry.message.text for entry in result.entries if isinstance(entry.message, AssistantMessage)]
        input = RunHookInput(
            moment="after_run",
            conversation_id=generation_id.partition("~")[0],
            generation_id=generation_id,
            turn=0,
            agent=settings.chosen,
            text=answers[-1] if answers and result.status == "done" else "",
            ended=RunEnd(status=result.status, reason=result.reason, detail=result.detail, request_ids=request_ids),
        )
        return cls(input=input, settings=settings)

    def starts(self, answer: RunHookAnswer, tree: str = "") -> list[StartTask]:
        """The tasks of the hooks, each under an id of its own below the run's."""
        return [self._start(number, call, tree) for number, call in enumerate(answer.tasks)]

    def _start(self, number: int, call: ResolvedCall, tree: str) -> StartTask:
        return StartTask(
            task_id=f"{self.input.generation_id}/r{number}",
            digest=digest(canonical_json([call.tool, call.arguments])),
            input=TaskInput(conversation_id=self.input.conversation_id, call=call, settings=self.settings, tree=tree),
        )

    def notes(self, answer: RunHookAnswer) -> list[SubmitInput]:
        """What went wrong with the hooks, for people."""
        scope = OWN_IDS[1] + digest(self.input.generation_id)
        return [
            SubmitInput(content=problem, request_id=f"{scope}-{number}", write=Write(kind="note"))
            for number, problem in enumerate(answer.problems)
        ]
