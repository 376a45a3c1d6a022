"""Temporal slow or down: senders are answered in time, told to send again, and nothing is delivered twice or lost."""

from __future__ import annotations

import asyncio
import time
import uuid
from pathlib import Path

import pytest
from temporalio.client import Client

from tarry.core.waiting import RECEIPTS
from tarry.embedded import EmbeddedServer, ServerOptions
from tests.support.gateways import Answered, Sender, callback_path, expecting, gateway, parked
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import PATIENCE, eventually
from tests.support.webhook_app import CiResult, app
from tests.support.wires import Wire
from workers import gateway_body, gateway_sending

DONE = CiResult.key("done")
ACKNOWLEDGED = 3.0
"""Seconds after which a platform sends again, or shows an error."""


async def timed(sender: Sender, match: str, delivery: str) -> tuple[Answered, float]:
    begun = time.monotonic()
    return await sender.ci(match, "passed", delivery), time.monotonic() - begun


async def receipts(client: Client, task_id: str) -> list[tuple[str, str]]:
    known = await client.get_workflow_handle(task_id).query(RECEIPTS)
    return [(one["answer"], one["delivery_id"]) for one in known]


async def begun(on: Stage) -> tuple[str, str]:
    """A parked call's id, and the match that its webhook is expected under."""
    submission = await on.harness.conversation().submit("test it")
    task_id = await parked(on, submission.conversation_id)
    match = uuid.uuid4().hex
    await expecting(on, match, task_id, CiResult.key("other"))
    return task_id, match


async def test_slow_calls_are_answered_within_three_seconds_and_resends_deliver_nothing_twice(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    wire = Wire()
    async with stage(server, app, tmp_path) as on, gateway(on, wire.client(on.client)) as sender:
        task_id, match = await begun(on)
        wire.free.clear()

        clicks = [await timed(sender, match, "click-1") for _ in range(3)]
        wire.free.set()
        last = await sender.ci(match, "passed", "click-1")

        assert [(answer.status, answer.answer) for answer, _ in clicks] == [(503, "unavailable")] * 3
        assert max(spent for _, spent in clicks) < ACKNOWLEDGED
        assert (last.status, last.answer) == (200, "delivered")
        assert wire.calls.count("describe") == 1, "the resends joined what was under way"
        assert await receipts(on.client, task_id) == [("delivered", last.delivery_id)]


async def test_what_is_under_way_when_the_gateway_is_told_to_stop_is_finished(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    wire = Wire()
    async with stage(server, app, tmp_path) as on:
        async with gateway(on, wire.client(on.client)) as sender:
            task_id, match = await begun(on)
            wire.free.clear()
            late = await sender.ci(match, "passed", "click-1")
            asyncio.get_running_loop().call_soon(wire.free.set)

        assert (late.status, late.answer) == (503, "unavailable")
        assert await receipts(on.client, task_id) == [("delivered", late.delivery_id)]


async def test_with_temporal_down_the_sender_is_told_to_send_again_and_the_resend_delivers_once(
    tmp_path: Path,
) -> None:
    async with (
        EmbeddedServer(ServerOptions(database=tmp_path / "temporal.db")) as mortal,
        stage(mortal, app, tmp_path / "store") as on,
        gateway(on) as sender,
    ):
        task_id, match = await begun(on)

        await mortal.kill()
        down, spent = await timed(sender, match, "event-1")
        by_url = await sender.http.post(callback_path(on, "nobody~1/g1/t1.0", DONE), content=b"1")
        await mortal.start()
        up = await eventually(lambda: sender.ci(match, "passed", "event-1"), lambda answer: answer.status < 500)

        assert (down.status, down.answer, by_url.status_code) == (503, "unavailable", 503)
        assert by_url.headers["retry-after"].isdecimal()
        assert spent < ACKNOWLEDGED
        assert up.answer in ("delivered", "accepted")
        assert await eventually(lambda: receipts(on.client, task_id)) == [("delivered", down.delivery_id)]


async def test_more_than_can_be_under_way_is_turned_away_and_comes_again(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_sending, "MAX_UNDER_WAY", 20)
    wire = Wire()
    async with idle_stage(server, app, tmp_path) as on, gateway(on, wire.client(on.client)) as sender:
        wire.free.clear()
        answers = await asyncio.gather(*(sender.ci(uuid.uuid4().hex, "passed", source="strict") for _ in range(30)))
        wire.free.set()

        assert {answer.status for answer in answers} == {503}
        assert [answer.reason for answer in answers].count("too much is under way") == 10
        again = await eventually(lambda: sender.ci("7", "passed", source="strict"), lambda answer: answer.status < 500)
        assert again.answer == "not_found"


async def test_an_error_of_the_gateway_is_no_final_answer(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app, tmp_path) as on:
        wire = Wire()
        wire.fault = ZeroDivisionError()
        async with gateway(on, wire.client(on.client)) as sender:
            answered = await sender.ci("7", "passed")

        assert (answered.status, answered.answer) == (500, "unavailable")


async def test_a_body_that_does_not_come_is_not_waited_for(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway_body, "BODY_PATIENCE", 0.1)
    async with idle_stage(server, app, tmp_path) as on, gateway(on) as sender:
        url = sender.http.base_url
        reader, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"POST /webhooks/ci HTTP/1.1\r\nHost: gateway\r\nContent-Length: 9\r\n\r\n{")
        async with asyncio.timeout(PATIENCE):
            head = await reader.readuntil(b"\r\n")
        writer.close()

        assert head == b"HTTP/1.1 408 Request Timeout\r\n"


async def test_a_sender_that_leaves_in_the_middle_of_its_body_harms_nobody(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app, tmp_path) as on, gateway(on) as sender:
        url = sender.http.base_url
        _, writer = await asyncio.open_connection(url.host, url.port)
        writer.write(b"POST /webhooks/ci HTTP/1.1\r\nHost: gateway\r\nContent-Length: 9\r\n\r\n{")
        await writer.drain()
        writer.close()

        assert (await sender.ci("7", "queued")).answer == "ignored"
