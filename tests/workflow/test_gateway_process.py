"""`tarry gateway` as a process: how it starts, what it refuses to start with, how it stops, and a restart."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest

from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tests.support import webhook_app
from tests.support.command import Command, Done, interrupt, told
from tests.support.gateways import CALLBACK_SECRETS, Sender, callback_path, parked
from tests.support.programs import ROOT, living_in
from tests.support.stage import Stage, stage
from tests.support.waiting import PATIENCE
from tests.support.webhook_app import SECRETS, CiResult

APP = ("--app", webhook_app.NAME)
DONE = CiResult.key("done")


@pytest.fixture
def tarry(server: EmbeddedServer, tmp_path: Path) -> Command:
    """The command in a folder of its own, with all secrets set."""
    folder = tmp_path / "home"
    folder.mkdir()
    kept = {name: value for name, value in environment_of(server.address).items() if not name.startswith("TARRY_")}
    settings = {"TARRY_CALLBACK_SECRETS": CALLBACK_SECRETS, "TARRY_GATEWAY_PORT": "0", "PYTHONPATH": str(ROOT)}
    return Command(folder, kept | SECRETS | settings)


def of_stage(on: Stage) -> Mapping[str, str]:
    return {"TARRY_TASK_QUEUE": on.settings.task_queue, "TARRY_STORE": on.settings.store}


@asynccontextmanager
async def running(tarry: Command, on: Stage) -> AsyncIterator[tuple[Sender, Process]]:
    """A gateway process, and a sender to it."""
    async with tarry.started("gateway", *APP, variables=of_stage(on)) as process:
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            word, url = (await process.stdout.readline()).decode().split()
        assert word == "ready"
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http:
            yield Sender(http), process


async def test_a_click_after_a_restart_of_the_gateway_is_delivered_and_the_next_one_is_told_so(
    server: EmbeddedServer, tarry: Command, tmp_path: Path
) -> None:
    async with stage(server, webhook_app.app, tmp_path / "store") as on:
        submission = await on.harness.conversation().submit("test it")
        task_id = await parked(on, submission.conversation_id)
        path = callback_path(on, task_id, CiResult.key("other"))
        async with running(tarry, on) as (sender, process):
            assert (await sender.http.get("/healthz")).status_code == 200
            first = await interrupt(process, signal.SIGTERM)

        async with running(tarry, on) as (sender, process):
            click = await sender.post(path, b'{"status": "passed"}')
            resent = await sender.post(path, b'{"status": "passed"}')
            second = await sender.post(path, b'{"status": "failed"}')
            last = await interrupt(process, signal.SIGTERM)

    assert [(one.status, one.answer) for one in (click, second)] == [(200, "delivered"), (200, "duplicate")]
    assert resent == click
    assert (first.code, last.code) == (0, 0)
    lines = [line for line in last.err.splitlines() if "tarry.gateway" in line]
    assert len(lines) == 3, last.err
    assert '"answer": "duplicate"' in lines[-1]


async def test_a_request_under_way_at_sigterm_is_answered_and_no_new_one_is_taken(
    server: EmbeddedServer, tarry: Command, tmp_path: Path
) -> None:
    async with stage(server, webhook_app.app, tmp_path / "store") as on, running(tarry, on) as (sender, process):
        path = callback_path(on, "nobody~aa/g1/t1.0", DONE)
        stopping = asyncio.Event()

        async def body() -> AsyncIterator[bytes]:
            yield b'{"status": '
            process.send_signal(signal.SIGTERM)
            while await is_taken(sender):
                continue
            stopping.set()
            yield b'"passed"}'

        answered = await sender.http.post(path, content=body())
        async with asyncio.timeout(PATIENCE):
            await process.communicate()

    assert stopping.is_set()
    assert (answered.status_code, answered.json()["answer"]) == (404, "not_found")
    assert process.returncode == 0


async def is_taken(sender: Sender) -> bool:
    """Whether new connections are accepted."""
    try:
        _, writer = await asyncio.open_connection(sender.http.base_url.host, sender.http.base_url.port)
    except OSError:
        return False
    writer.close()
    return True


async def test_with_json_it_says_where_it_listens_and_how_it_ended(tarry: Command) -> None:
    async with tarry.started("gateway", *APP, "--json") as process:
        ready = await told(process)
        ended = await interrupt(process, signal.SIGTERM)

    assert (ready["event"], ready["url"].startswith("http://127.0.0.1:")) == ("ready", True)
    assert (ended.code, ended.json) == (0, {"event": "ended", "exit_code": 0})
    assert living_in(tarry.folder) == []


async def refused(tarry: Command, *arguments: str, **variables: str) -> Done:
    return await tarry.run("gateway", *arguments, **variables)


async def test_it_names_in_one_line_what_is_to_be_put_right(tarry: Command, server: EmbeddedServer) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        starts = {
            f"cannot listen on 127.0.0.1:{port} (": refused(tarry, *APP, TARRY_GATEWAY_PORT=str(port)),
            "cannot listen on 192.0.2.1:0 (": refused(tarry, *APP, TARRY_GATEWAY_HOST="192.0.2.1"),
            "webhook source bank: set BANK_SECRET to": refused(tarry, *APP, BANK_SECRET=""),
            "webhook source mail: MAIL_SECRET holds no secret of its scheme": refused(tarry, *APP, MAIL_SECRET="h!"),
            "TARRY_CALLBACK_SECRETS is refused: give secrets of": refused(tarry, *APP, TARRY_CALLBACK_SECRETS="short"),
            "TARRY_GATEWAY_PORT='x' is refused": refused(tarry, *APP, TARRY_GATEWAY_PORT="x"),
            "no application: give --app": refused(tarry),
            "app 'nowhere:app': there is no module": refused(tarry, "--app", "nowhere:app"),
        }
        ends = {text: await start for text, start in starts.items()}

    said = {text: (done.code, done.out, len(done.err.splitlines()), text in done.err) for text, done in ends.items()}
    assert said == dict.fromkeys(starts, (2, "", 1, True))
    assert all(done.err.startswith("gateway: ") for done in ends.values())


async def test_a_second_signal_ends_it_at_once(server: EmbeddedServer, tarry: Command, tmp_path: Path) -> None:
    async with stage(server, webhook_app.app, tmp_path / "store") as on, running(tarry, on) as (sender, process):
        reader, writer = await asyncio.open_connection(sender.http.base_url.host, sender.http.base_url.port)
        path = callback_path(on, "nobody~aa/g1/t1.0", DONE)
        writer.write(f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n".encode())
        await writer.drain()
        process.send_signal(signal.SIGTERM)
        while await is_taken(sender):
            continue
        os.kill(process.pid, signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            code = await process.wait()
        writer.close()
        assert await reader.read() == b""

    assert code == 1
