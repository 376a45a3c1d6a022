"""Questions to workflows: asked again when nobody answers, each time with the time that a slow worker needs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from tarry import asking
from tarry.asking import PATIENCE, ask


class Worker:
    """Stands for a client whose worker needs `needs` for an answer; `says` is why there is none."""

    def __init__(self, needs: timedelta, says: RPCStatusCode = RPCStatusCode.DEADLINE_EXCEEDED) -> None:
        self.needs = needs
        self.says = says
        self.timeouts: list[timedelta] = []
        self.refusals: list[str] = []
        """What the next attempts fail with, each once."""
        self.id = "c"

    def get_workflow_handle(self, workflow_id: str) -> Worker:
        return self

    async def query(
        self, name: str, *, args: Any, result_type: type[str], rpc_timeout: timedelta, reject_condition: None
    ) -> str:
        self.timeouts.append(rpc_timeout)
        if self.refusals:
            raise WorkflowQueryFailedError(self.refusals.pop(0))
        if rpc_timeout >= self.needs:
            return "here"
        await asyncio.sleep(rpc_timeout.total_seconds())
        raise RPCError("", self.says, b"")


MISFIT = "[TMPRL1100] Nondeterminism error: Timer machine does not handle this event"


async def answer(worker: Worker, patience: timedelta = PATIENCE) -> str:
    return await ask(cast("Client", worker), "c", "view", str, patience=patience)


async def test_a_worker_that_is_slow_is_given_ever_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "QUERY_TIMEOUT", timedelta(milliseconds=20))
    worker = Worker(needs=timedelta(milliseconds=500))

    assert await answer(worker) == "here"
    assert worker.timeouts[0] == timedelta(milliseconds=20)
    spent = [sum(worker.timeouts[:attempt], timedelta()) for attempt in range(1, len(worker.timeouts))]
    assert all(timeout >= before for timeout, before in zip(worker.timeouts[1:], spent, strict=True))


async def test_silence_is_told_when_patience_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asking, "QUERY_TIMEOUT", timedelta(milliseconds=20))
    worker = Worker(needs=timedelta(hours=1))

    with pytest.raises(RPCError):
        await answer(worker, patience=timedelta(milliseconds=100))
    assert len(worker.timeouts) > 1


async def test_what_asking_again_cannot_change_is_told_at_once() -> None:
    worker = Worker(needs=timedelta(hours=1), says=RPCStatusCode.NOT_FOUND)

    with pytest.raises(RPCError):
        await answer(worker)
    assert len(worker.timeouts) == 1


async def test_a_worker_whose_code_does_not_fit_the_history_is_not_believed() -> None:
    worker = Worker(needs=timedelta())
    worker.refusals = [MISFIT, MISFIT]

    assert await answer(worker) == "here"
    assert len(worker.timeouts) == 3


async def test_when_no_other_worker_answers_it_is_told_as_silence_with_the_reason() -> None:
    worker = Worker(needs=timedelta())
    worker.refusals = [MISFIT] * 9

    with pytest.raises(RPCError, match="a worker that does not fit the history of c was asked") as told:
        await answer(worker, patience=timedelta())
    assert told.value.status == RPCStatusCode.UNAVAILABLE


async def test_what_the_workflow_refuses_is_told_at_once() -> None:
    worker = Worker(needs=timedelta())
    worker.refusals = ["Query handler for 'view' expected but not found"]

    with pytest.raises(WorkflowQueryFailedError):
        await answer(worker)
    assert len(worker.timeouts) == 1
