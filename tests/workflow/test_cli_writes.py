"""`tarry write`, `tarry reset` and `tarry withdraw`: what they print and how they end, with a worker and without."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tests.support import cli_app
from tests.support.command import Command, Done
from tests.support.stage import Stage, idle_stage


@pytest.fixture
async def on(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage on which no worker runs yet."""
    async with idle_stage(server, cli_app.app, tmp_path / "store") as made:
        yield made


@pytest.fixture
def tarry(on: Stage, server: EmbeddedServer, tmp_path: Path) -> Command:
    """The command on that stage's queue."""
    ours = {"TARRY_TASK_QUEUE": on.settings.task_queue, "TARRY_STORE": on.settings.store}
    return Command(tmp_path, environment_of(server.address) | ours)


async def test_with_a_worker_an_entry_is_placed_at_once_and_told(on: Stage, tarry: Command) -> None:
    async with on.worker():
        plain = await tarry.run("write", "c1", "it rains")
        again = await tarry.run("write", "c1", "all is green", "--kind", "user", "--request-id", "w", "--json")
        reset = await tarry.run("reset", "c1", "--handoff", "Begin.", "--json")
        entries = await on.harness.conversation("c1").transcript()

    assert plain == Done(0, "entry 0\n", "")
    assert (again.code, again.json) == (0, told("w", status="done", entry=1, accepted_by="worker"))
    assert (reset.json["status"], reset.json["entry"]) == ("done", 2)
    assert [entry.kind for entry in entries] == ["note", "user", "reset"]


async def test_without_a_worker_entries_and_withdrawals_wait_with_the_server(on: Stage, tarry: Command) -> None:
    written = await tarry.run("write", "c2", "it rains", "--request-id", "w", "--json")
    await tarry.run("submit", "hello", "--conversation", "c2", "--request-id", "r1")
    await tarry.run("submit", "never mind", "--conversation", "c2", "--request-id", "r2")
    taken = await tarry.run("withdraw", "c2", "r2")
    async with on.worker():
        waited = await tarry.run("wait", "c2", "w")
        answered = await tarry.run("wait", "c2", "r1")
        ended = await tarry.run("wait", "c2", "r2")

    assert (written.code, written.json) == (0, told("w", "c2", status="queued", accepted_by="server"))
    assert taken == Done(0, "accepted by the server: it is tried when a worker is up\n", "")
    assert (waited.code, answered) == (0, Done(0, "you said: hello\n", ""))
    assert ended == Done(1, "", "tarry: no answer (aborted)\n")


async def test_what_waits_no_more_is_not_taken_back_and_says_why(on: Stage, tarry: Command) -> None:
    async with on.worker():
        await (await on.harness.conversation("c3").submit("hello", request_id="r")).wait()
        settled = await tarry.run("withdraw", "c3", "r")
        unknown = await tarry.run("withdraw", "c3", "nobody", "--json")
        nowhere = await tarry.run("withdraw", "nowhere", "r")

    assert settled == Done(1, "", "tarry: settled: it has ended: `tarry wait` tells how\n")
    assert (unknown.code, unknown.json["answer"]) == (1, "not_found")
    assert (nowhere.code, nowhere.err) == (1, "tarry: there is no conversation nowhere\n")


def told(request_id: str, conversation_id: str = "c1", **facts: object) -> dict[str, object]:
    """The object that `write` prints."""
    empty = {"entry": None, "reason": ""}
    return {"conversation_id": conversation_id, "request_id": request_id, **empty, **facts}
