"""Tasks that answer no update, or not in time: the value takes the other road (spec §3.3, §3.4).

The task is a stand-in that misbehaves as asked; server, worker and client are real.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker
from temporalio.workflow import HandlerUnfinishedPolicy

from signals.box import Delivery, Receipt
from tarry.client.signals import deliver
from tarry.connect import data_converter
from tarry.core.protocol import TOOL_CALL
from tarry.core.waiting import CROWDED, DELIVER, RECEIPTS
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tests.support.command import Command
from tests.support.waiting import eventually

AT = datetime(2030, 1, 1, tzinfo=UTC)


@workflow.defn(name=TOOL_CALL, sandboxed=False)
class StandIn:
    """Does with an update what its key says, and keeps plain signals."""

    def __init__(self) -> None:
        self._is_over = False
        self._signals: list[Any] = []
        self._receipts: list[Receipt] = []

    @workflow.run
    async def run(self) -> None:
        """Run until an update ends it."""
        await workflow.wait_condition(lambda: self._is_over)

    @workflow.update(name=DELIVER, unfinished_policy=HandlerUnfinishedPolicy.ABANDON)
    async def deliver(self, delivery: Delivery) -> Receipt:
        """Never answer."""
        if delivery.key == "broken":
            raise RuntimeError("a bug")
        if delivery.key.startswith("over"):
            self._is_over = True
            if delivery.key == "over, told":
                self._receipts.append(
                    Receipt(
                        delivery_id=delivery.delivery_id, signal="app.x", key=delivery.key, answer="delivered", at=AT
                    )
                )
        await workflow.wait_condition(lambda: False)
        raise AssertionError

    @deliver.validator
    def _check(self, delivery: Delivery) -> None:
        if delivery.key == "crowded":
            raise ApplicationError("too many", type=CROWDED)

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Keep it."""
        self._signals.append([name, *(workflow.payload_converter().from_payload(one.payload) for one in args)])

    @workflow.query
    def signals(self) -> list[Any]:
        """What came by plain signal."""
        return self._signals

    @workflow.query(name=RECEIPTS)
    def receipts(self) -> list[Receipt]:
        """As a task tells them."""
        return self._receipts


@pytest.fixture
async def client(server: EmbeddedServer) -> Client:
    """Encodes as ours do."""
    return await Client.connect(server.address, data_converter=data_converter("/nonexistent"))


@pytest.fixture
async def task(client: Client) -> AsyncIterator[WorkflowHandle[Any, Any]]:
    """A stand-in with a worker."""
    queue = f"roads-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[StandIn]):
        yield await client.start_workflow(TOOL_CALL, id=queue, task_queue=queue)


async def sent(task: WorkflowHandle[Any, Any], key: str, client: Client) -> tuple[str, str]:
    """The answer to a delivery, and its reason."""
    result = await deliver(client, task.id, "app.x", key, {"n": 1}, version=2, delivery_id="d1")
    return result.answer, result.reason


@pytest.mark.parametrize("key", ["crowded", "admitted and never answered"])
async def test_task_that_gives_no_answer_gets_the_plain_signal(
    key: str, task: WorkflowHandle[Any, Any], client: Client
) -> None:
    answer = await sent(task, key, client)

    assert answer == ("accepted", "")
    envelope = {"key": key, "value": {"n": 1}, "version": 2, "delivery_id": "d1"}
    assert await task.query(StandIn.signals) == [["app.x", envelope]]


async def test_task_whose_workflow_task_fails_keeps_the_value(task: WorkflowHandle[Any, Any], client: Client) -> None:
    first = await sent(task, "broken", client)
    again = await sent(task, "fine but stuck", client)

    async def stored() -> list[str]:
        events = [event async for event in task.fetch_history_events()]
        signals = [event.workflow_execution_signaled_event_attributes for event in events]
        return [signal.signal_name for signal in signals if signal.signal_name]

    # The server holds them back while a task is under way.
    await eventually(stored, lambda names: names == ["app.x", "app.x"])
    assert (first, again) == (("accepted", ""), ("accepted", ""))


async def test_task_whose_workflow_task_fails_is_explained_by_that(
    task: WorkflowHandle[Any, Any], client: Client, server: EmbeddedServer, tmp_path: Path
) -> None:
    await sent(task, "broken", client)

    done = await Command(tmp_path, environment_of(server.address)).run("explain", task.id, "--json")

    assert (done.code, done.err, len(done.json["pending"])) == (0, "", 1)
    assert done.json["pending"][0].startswith("its next step fails, and was tried ")


async def test_task_that_ended_over_an_update_is_asked_for_its_receipt(
    task: WorkflowHandle[Any, Any], client: Client
) -> None:
    told = await sent(task, "over, told", client)

    assert told == ("delivered", "")


async def test_task_that_ended_over_an_update_and_knows_nothing_of_it_is_closed(
    task: WorkflowHandle[Any, Any], client: Client
) -> None:
    assert await sent(task, "over", client) == ("closed", "the task is over")
