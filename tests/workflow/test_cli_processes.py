"""What `tarry` starts: it comes up and goes down in order, says how it died, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from asyncio.subprocess import Process
from pathlib import Path

import pytest

from tarry.cli.processes import listens
from tarry.embedded import EmbeddedServer
from tarry.processes import environment_of
from tests.support import cli_app
from tests.support.command import Command, Done, Terminal, interrupt, told
from tests.support.programs import living_in
from tests.support.scripted_provider import CHAT_ANSWER, Reply, ScriptedProvider, chat_call, chat_chunk, sse
from tests.support.waiting import PATIENCE, eventually

APP = ("--app", cli_app.NAME)
FREE_PORTS = ("--port", "0", "--ui-port", "0")


@pytest.fixture
def tarry(tmp_path: Path) -> Command:
    """The command on a machine that knows of no server and no key."""
    unset = ("TEMPORAL_", "TARRY_", "OPENAI_", "TRIAGE_")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unset)}
    return Command(tmp_path, environment | {"TEMPORAL_CONFIG_FILE": os.devnull, "TARRY_SHUTDOWN_GRACE": "1"})


async def all_are_gone(tarry: Command) -> None:
    """Return when no process that was started in the command's folder runs any more."""

    async def left() -> list[str]:
        return living_in(tarry.folder)

    await eventually(left, lambda found: not found)


async def test_dev_serves_other_shells_and_ctrl_c_ends_it_in_order(tarry: Command) -> None:
    async with tarry.started("dev", *APP, *FREE_PORTS, "--json") as dev:
        ready = await told(dev)
        answer = await tarry.run("ask", "hello", TEMPORAL_ADDRESS=ready["address"], TARRY_STORE=ready["store"])
        ui_answers = listens(ready["ui_url"].removeprefix("http://"))
        done = await interrupt(dev)

    assert (ready["event"], ready["app"]) == ("ready", cli_app.NAME)
    assert ready["store"] == str(tarry.folder / ".tarry" / "store")
    assert (answer.code, answer.out, ui_answers) == (0, "you said: hello\n", True)
    assert (done.code, done.json) == (0, {"event": "ended", "exit_code": 0})
    assert living_in(tarry.folder) == []
    assert (tarry.folder / ".tarry" / "temporal.db").exists()


async def test_dev_tells_other_folders_its_address_and_its_store(tarry: Command) -> None:
    async with tarry.started("dev", *APP, *FREE_PORTS) as dev:
        lines = await lines_until(dev, "    tarry ask")
        await interrupt(dev)

    [address] = [line for line in lines if line.startswith("    export TEMPORAL_ADDRESS=127.0.0.1:")]
    assert lines[lines.index(address) + 1] == f"    export TARRY_STORE={tarry.folder / '.tarry' / 'store'}"


async def lines_until(process: Process, start: str) -> list[str]:
    """What a command prints up to a line that starts so."""
    assert process.stdout is not None
    lines: list[str] = []
    async with asyncio.timeout(PATIENCE):
        while not lines or not lines[-1].startswith(start):
            lines.append((await process.stdout.readline()).decode().rstrip("\n"))
    return lines


async def test_dev_says_how_its_worker_died_and_ends(tarry: Command) -> None:
    async with tarry.started("dev", *APP, *FREE_PORTS, "--json") as dev:
        ready = await told(dev)
        os.kill(ready["worker_pid"], signal.SIGKILL)
        out, err = await dev.communicate()

    assert dev.returncode == 137
    assert out == b'{"event": "ended", "exit_code": 137}\n'
    assert err.splitlines()[-1].startswith(b"tarry: the worker was ended by SIGKILL")
    assert living_in(tarry.folder) == []


async def test_killed_dev_leaves_no_process_behind(tarry: Command) -> None:
    async with tarry.started("dev", *APP, *FREE_PORTS, "--json") as dev:
        await told(dev)
        dev.kill()
        await dev.wait()

    await all_are_gone(tarry)


async def test_dev_names_what_is_to_be_put_right(tarry: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        occupied = await tarry.run("dev", *APP, "--port", port, "--ui-port", "0")
    nameless = await tarry.run("dev", *FREE_PORTS)
    unknown = await tarry.run("dev", "--app", "nowhere:app", *FREE_PORTS, "--json")

    for done, said in ((occupied, f"port {port} on 127.0.0.1 is taken"), (nameless, "--app"), (unknown, "no module")):
        assert (done.code, len(done.err.splitlines())) == (2, 1), done
        assert said in done.err
    assert (occupied.out, unknown.json["error"]["code"]) == ("", "worker_refused")


async def test_worker_stops_on_sigterm_and_passes_its_exit_code_on(server: EmbeddedServer, tarry: Command) -> None:
    tarry.environment |= environment_of(server.address) | {"TARRY_TASK_QUEUE": "cli-worker"}
    unknown = await tarry.run("worker", "--app", "nowhere:app")
    async with tarry.started("worker", *APP) as plain, tarry.started("worker", *APP, "--json") as watched:
        assert plain.stdout is not None
        assert await plain.stdout.readline() == b"ready\n"
        ready = await told(watched)
        stopped, ended = await asyncio.gather(interrupt(plain, signal.SIGTERM), interrupt(watched, signal.SIGTERM))

    assert (unknown.code, unknown.out) == (2, "")
    assert unknown.err.startswith("worker: app 'nowhere:app'")
    assert stopped.code == 0
    assert (ready["event"], ended.code, ended.json) == ("ready", 0, {"event": "ended", "exit_code": 0})
    assert living_in(tarry.folder) == []


async def test_ask_with_servers_of_its_own_loses_no_question_when_its_worker_dies(tarry: Command) -> None:
    own = ("--embedded", *APP, "--conversation", "c1")
    died = await tarry.run("ask", "kill the worker", *own, "--json", TARRY_HEARTBEAT_TIMEOUT="1")
    answered = await tarry.run("ask", "hello", *own, **{cli_app.SPARED: "yes"})

    assert (died.code, len(died.err.splitlines()), died.json["error"]["code"]) == (1, 1, "worker_died")
    assert "the worker was ended by SIGKILL" in died.err
    assert died.json["conversation_id"] == "c1"
    # Queued behind the first question, which the next worker has answered.
    assert answered == Done(0, "you said: hello\n", "")


async def test_ask_with_a_key_runs_the_example_agent_on_a_real_provider(tarry: Command) -> None:
    ticket = Reply((sse(chat_call(0, "c1", "open_ticket", '{"title": "NPE"}'), chat_chunk("tool_calls"), "[DONE]"),))
    async with ScriptedProvider(ticket, CHAT_ANSWER) as provider:
        key = {"OPENAI_API_KEY": "sk-test", "OPENAI_BASE_URL": provider.base_url, "OPENAI_MODEL": "some-model"}
        done = await tarry.run("ask", "Why do orders fail?", "--embedded", **key)

    assert (done.code, done.out, done.err) == (0, "fine\n", "")
    result = provider.requests[-1].body["messages"][-1]
    assert (provider.requests[0].body["model"], result["content"]) == ("some-model", "Opened TICKET-1")
    assert "TICKET-1" in (tarry.folder / ".tarry" / "tickets.json").read_text()


async def test_interrupted_start_leaves_no_process_behind(tarry: Command) -> None:
    terminal = Terminal()
    try:
        async with tarry.started("ask", "hello", "--embedded", *APP, stderr=terminal.slave) as asking:
            await terminal.shows("starting a worker")
            done = await interrupt(asking)
            await terminal.shows("tarry: interrupted")
    finally:
        terminal.close()

    assert (done.code, living_in(tarry.folder)) == (130, [])
