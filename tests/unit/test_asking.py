"""Questions to workflows: asked again when nobody answers, each time with the time that a slow worker needs."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from tarry import asking
from tarry.asking import PATIENCE, ask


class Worker:
    """Stands for a client whose worker needs `needs` for an answer; `says` is why there is none."""

    def __init__(self, needs: timedelta, says: RPCStatusCode = RPCStatusCode.DEADLINE_EXCEEDED) -> None:
        self.needs = needs
        self.says = says
        self.timeouts: list[timedelta] = []

    def get_workflow_handle(self, workflow_id: str) -> Worker:
        return self

    async def query(self, name: str, *, args: Any, result_type: type[str], rpc_timeout: timedelta) -> str:
        self.timeouts.append(rpc_timeout)
        if rpc_timeout >= self.needs:
            return "here"
        await asyncio.sleep(rpc_timeout.total_seconds())
        raise RPCError("", self.says, b"")


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
