"""Drills with calls that wait before their intent: seen and answered by what only the server needs to be up for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tarry.attributes import WAITING_FOR
from tarry.client import Submission
from tarry.connect import sending_inline
from tarry.core.transcript import Entry
from tarry.gates import DECISION
from tests.support.parked_drills import ParkedDrill, call_of, told
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Verdict:
    """A conversation with gated calls when its submission is settled.

    `codes` are how its calls ended, in order; `ledger` each run that really began; `passes` what each pass of a call's
    gates found, a call after the other.
    """

    codes: list[str]
    ledger: list[str]
    passes: list[list[str]]
    end: str = "done"
    failed_tasks: Sequence[str] = ()


class GatedDrill(ParkedDrill):
    """A drill whose workers serve an application with gates."""

    app = "tests.support.gated_app:app"

    async def gated(self, submission: Submission, slot: int = 0) -> str:
        """The id of one of its calls, which waits before its intent. Needs no worker."""
        task_id = f"{call_of(submission).removesuffix('.0')}.{slot}"
        await eventually(lambda: self.state(task_id), lambda state: state == "gated")
        return task_id

    async def question(self, task_id: str) -> str:
        """The key of what it asks. Needs no worker."""
        found = (await self._description(task_id)).typed_search_attributes.get(WAITING_FOR) or [""]
        return found[0].partition("/")[2]

    async def decide(self, task_id: str, *, allow: bool) -> None:
        """Answer its question by a plain signal, as a shell does: the server keeps it, whoever is up."""
        envelope = {"key": await self.question(task_id), "value": {"allow": allow, "by": "ana"}, "delivery_id": "d"}
        await sending_inline(self.harness.client).get_workflow_handle(task_id).signal(DECISION.name, envelope)

    def passes(self, task_id: str) -> list[str]:
        """What each pass of its gates found, oldest first."""
        return [line["point"] for line in self.lines("passes") if line["task_id"] == task_id]

    async def verdict(self, submission: Submission) -> Verdict:
        """All of it. Needs a worker."""
        after = await self.aftermath(submission)
        entries: list[Entry] = await self.harness.conversation(submission.conversation_id).transcript()
        facts = [entry.tool for entry in entries if entry.tool is not None]
        return Verdict(
            codes=[fact.code for fact in facts],
            ledger=told(self.runs(submission.conversation_id)),
            passes=[self.passes(fact.task_id) for fact in facts],
            end=after.end,
            failed_tasks=after.account.failed_tasks,
        )
