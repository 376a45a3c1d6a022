"""Drills with work that waits: seen, delivered to and judged by what only the server needs to be up for."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from signals.box import Receipt
from tarry import Outcome
from tarry.attributes import STATE
from tarry.client import DurableTaskHandle, Submission
from tarry.connect import sending_inline
from tarry.core.waiting import RECEIPTS
from tests.support.drills import ROUND, Drill, Run
from tests.support.histories import Account, account
from tests.support.parked_app import DONE, NEWS, order
from tests.support.waiting import PATIENCE, eventually


@dataclass(frozen=True)
class Life:
    """A conversation with one parked call when its submission is settled.

    `ledger` holds each run that really began, as `told` puts it, `receipts` what became of deliveries, in order;
    `tickets` is how many were really opened. What is left out is as it is when nothing went wrong.
    """

    results: list[str]
    ledger: list[str]
    account: Account
    receipts: Sequence[str] = ("d delivered",)
    tickets: int = 2
    end: str = "done"
    kinds: Sequence[str] = tuple(ROUND)


@dataclass(frozen=True)
class Course:
    """What `Life` tells, of a durable task."""

    outcome: Outcome[str]
    ledger: list[str]
    account: Account
    receipts: Sequence[str] = ("d delivered",)
    tickets: int = 1


class ParkedDrill(Drill):
    """A drill whose workers serve the application that parks."""

    app = "tests.support.parked_app:app"

    async def state(self, task_id: str) -> str:
        """What lists say of a task; empty before it exists. Needs no worker."""
        try:
            described = await self._description(task_id)
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return ""
        return described.typed_search_attributes.get(STATE) or ""

    async def parked(self, task_id: str) -> None:
        """Return when the task has parked."""
        await eventually(lambda: self.state(task_id), lambda state: state == "sleeping")

    async def parked_call(self, submission: Submission) -> str:
        """The id of the submission's one call, which has parked."""
        task_id = call_of(submission)
        await self.parked(task_id)
        return task_id

    async def send(self, task_id: str, text: str, delivery_id: str = "") -> None:
        """A plain signal, as a shell sends it: the server takes it, whoever is up, and no store is needed."""
        envelope: dict[str, Any] = {"key": DONE, "value": {"text": text}, "delivery_id": delivery_id}
        await sending_inline(self.harness.client).get_workflow_handle(task_id).signal(NEWS.name, envelope)

    async def history(self, task_id: str) -> list[HistoryEvent]:
        """What happened to a task, asked of the server."""
        return list((await self.harness.client.get_workflow_handle(task_id).fetch_history()).events)

    async def happened(self, task_id: str, *kinds: EventType.ValueType) -> None:
        """Return when events of these kinds have happened to a task, in this order."""

        def have(events: list[HistoryEvent]) -> bool:
            since = iter(event.event_type for event in events)
            return all(kind in since for kind in kinds)

        await eventually(lambda: self.history(task_id), have)

    async def receipts(self, task_id: str) -> list[str]:
        """What became of each delivery, in order: its id and the answer. Needs a worker."""
        handle = self.harness.client.get_workflow_handle(task_id)
        found = await handle.query(RECEIPTS, result_type=list[Receipt])
        return [f"{receipt.delivery_id} {receipt.answer}" for receipt in found]

    async def start_order(self, *, stop_at: Sequence[str] = ()) -> DurableTaskHandle[str]:
        """Start a durable task, whose workers stop at these points in turn."""
        key = uuid.uuid4().hex
        self.points.plan(f"task-{key}", stop_at, deadly=False)
        return await self.harness.start_task(order, "rain", key=key)

    async def course(self, task: DurableTaskHandle[str]) -> Course:
        """A durable task when it is over. Needs a worker."""
        async with asyncio.timeout(PATIENCE):
            outcome = await task.outcome()
        return Course(
            outcome=outcome,
            ledger=told(self.runs(task.id)),
            account=await account(self.harness.client, task.id),
            receipts=tuple(await self.receipts(task.id)),
            tickets=len(await self.tickets(task.id)),
        )

    async def life(self, submission: Submission) -> Life:
        """All of it. Needs a worker."""
        after = await self.aftermath(submission)
        return Life(
            results=after.results,
            ledger=told(self.runs(submission.conversation_id)),
            account=after.account,
            receipts=tuple(await self.receipts(call_of(submission))),
            tickets=len(after.tickets),
            end=after.end,
            kinds=tuple(after.kinds),
        )

    async def _description(self, task_id: str) -> WorkflowExecutionDescription:
        return await self.harness.client.get_workflow_handle(task_id).describe()


def call_of(submission: Submission) -> str:
    """The id of the one call that a submission leads to, whose run was begun when it was submitted."""
    assert submission.view is not None
    return f"{submission.view.generation_id}/t1.0"


def told(runs: Sequence[Run]) -> list[str]:
    """Each run: code, attempt, which of the idempotency keys it had, and of a woken one by what and after what."""
    keys = list(dict.fromkeys(run.key for run in runs))
    return [_told(run, keys.index(run.key) + 1) for run in runs]


def _told(run: Run, key: int) -> str:
    since = f" after {run.checkpoint}" if run.checkpoint is not None else ""
    return f"{run.tool} {run.attempt}, key {key}" + (f", {run.wake}" if run.wake else "") + since
