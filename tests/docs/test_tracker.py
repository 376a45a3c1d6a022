"""The tracker behaves as a provider does: a key opens one ticket, and what was answered is kept."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tarry.demo.tracker import Ticket, tickets_at, tracker
from tarry.processes import Child
from tests.support.programs import run


@pytest.fixture(scope="module")
async def process(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[Child, Path]]:
    """The one tracker of all tests, and its file."""
    folder = tmp_path_factory.mktemp("tracker")
    file = folder / "tickets.json"
    async with tracker(file, log=folder / "tracker.log", environment=os.environ) as child:
        yield child, file


@pytest.fixture
def running(process: tuple[Child, Path]) -> Child:
    """The tracker, holding nothing."""
    child, file = process
    file.unlink(missing_ok=True)
    return child


async def post(url: str, body: Any, key: str | None = None) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False) as client:
        headers = {} if key is None else {"Idempotency-Key": key}
        return await client.post(f"{url}/tickets", json=body, headers=headers)


async def test_requests_without_a_key_open_a_ticket_each(running: Child) -> None:
    answers = [await post(running.ready_line, {"title": "NPE"}) for _ in range(2)]

    assert [(answer.status_code, answer.json()["id"]) for answer in answers] == [(201, "TICKET-1"), (201, "TICKET-2")]


async def test_repeat_of_a_key_gets_the_first_ticket(running: Child) -> None:
    answers = [await post(running.ready_line, {"title": "NPE"}, key) for key in ("k1", "k1", "k2")]

    assert [answer.status_code for answer in answers] == [201, 200, 201]
    assert await tickets_at(running.ready_line) == [
        Ticket(id="TICKET-1", title="NPE", key="k1"),
        Ticket(id="TICKET-2", title="NPE", key="k2"),
    ]


async def test_key_with_another_title_is_refused(running: Child) -> None:
    await post(running.ready_line, {"title": "NPE"}, "k1")

    answer = await post(running.ready_line, {"title": "Timeout"}, "k1")

    assert (answer.status_code, answer.json()) == (
        422,
        {"error": "the key belongs to TICKET-1, which has another title"},
    )
    assert [ticket.title for ticket in await tickets_at(running.ready_line)] == ["NPE"]


@pytest.mark.parametrize("body", [None, {}, {"title": ""}, {"title": 7}, ["NPE"]])
async def test_request_without_a_title_opens_nothing(running: Child, body: Any) -> None:
    answer = await post(running.ready_line, body)

    assert (answer.status_code, await tickets_at(running.ready_line)) == (400, [])


async def test_tickets_survive_a_kill_of_the_tracker(running: Child) -> None:
    await post(running.ready_line, {"title": "NPE"}, "k1")
    await running.kill()

    await running.start()

    assert (await post(running.ready_line, {"title": "NPE"}, "k1")).status_code == 200
    assert [ticket.id for ticket in await tickets_at(running.ready_line)] == ["TICKET-1"]


async def test_taken_port_is_said_in_one_line(running: Child, tmp_path: Path) -> None:
    port = str(httpx.URL(running.ready_line).port)

    ended = await run(sys.executable, "-m", "tarry.demo.tracker", "--port", port, cwd=tmp_path)

    assert (ended.code, ended.stdout) == (2, "")
    assert ended.stderr == f"tracker: port {port} cannot be used (Address already in use): give --port 0\n"
