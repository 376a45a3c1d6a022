"""Tools of MCP servers in conversations: real servers, by stdio and by HTTP (spec §15)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tarry.app import App, Extension
from tarry.embedded import EmbeddedServer
from tarry.mcp import HttpServer, McpServer, McpUnavailable, StdioServer, mcp_server
from tarry.testing import ScriptedModel, Step, call, calls, say
from tarry.tools import tool
from tests.support.answers import answer_to, ask
from tests.support.coding import tagged
from tests.support.programs import ROOT, start
from tests.support.stage import stage
from tests.support.waiting import eventually

PROGRAM = "tests.support.mcp_server"


def by_stdio(folder: Path) -> StdioServer:
    """A server that works in a folder; its processes can be found by it."""
    command = ["-m", PROGRAM]
    return StdioServer(sys.executable, command, variables={"MCP_FOLDER": str(folder), "PYTHONPATH": str(ROOT)})


def servers_in(folder: Path) -> list[int]:
    """The processes of the server that work in a folder."""
    found = []
    for process in tagged(PROGRAM):
        with contextlib.suppress(OSError):
            if f"MCP_FOLDER={folder}".encode() in Path(f"/proc/{process}/environ").read_bytes():
                found.append(process)
    return found


@contextlib.asynccontextmanager
async def by_http(folder: Path, port: int = 0) -> AsyncIterator[tuple[HttpServer, int]]:
    """A server on a port of its own."""
    if not port:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
    process = await start(sys.executable, "-m", PROGRAM, str(port), cwd=ROOT, MCP_FOLDER=str(folder))

    async def is_up() -> bool:
        with contextlib.suppress(OSError):
            (await asyncio.open_connection("127.0.0.1", port))[1].close()
            return True
        return False

    try:
        await eventually(is_up)
        yield HttpServer(f"http://127.0.0.1:{port}/mcp"), port
    finally:
        process.kill()
        await process.communicate()


def app_with(server: McpServer, *steps: Step) -> App:
    """An agent that does these steps with the tools of the server."""
    return App(model=ScriptedModel.for_each_input(list(steps)), extensions=[mcp_server("desk", server)])


async def app_of(server: McpServer, *steps: Step) -> App:
    """`app_with`, made in a thread: it asks the server."""
    return await asyncio.to_thread(app_with, server, *steps)


EVERYTHING = calls(
    call("desk_add", a=2, b=3),
    call("desk_add", a="x"),
    call("desk_picture"),
    call("desk_fail"),
    call("desk_secret"),
)


def shown_of(texts: list[str]) -> None:
    """What the model reads of `EVERYTHING`."""
    assert texts[0].replace(" ", "").replace("\n", "") == '{"sum":5}'
    assert "a: 'x' is not of type 'integer'" in texts[1]
    assert texts[2] == (
        "a cat\na dog\n<harness>\n"
        "[warn] image/png (3 bytes) was left out: it cannot be shown to you. (not_text)\n</harness>"
    )
    assert texts[3].startswith("Error executing tool fail")


async def test_tools_of_a_stdio_server_are_called_and_their_results_are_read(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    app = await app_of(by_stdio(tmp_path), EVERYTHING, say("done"))
    async with stage(server, app, tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())

    assert answer.text == "done"
    shown_of(answer.texts)
    assert answer.texts[4] == "MCP_FOLDER"
    assert [result.is_error for result in answer.results] == [False, True, False, True, False]
    assert answer.facts[0].details == {"sum": 5}


async def test_tools_of_an_http_server_are_called_and_their_results_are_read(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with by_http(tmp_path) as (there, _):
        app = await app_of(there, EVERYTHING, say("done"))
        async with stage(server, app, tmp_path / "store") as on:
            answer = await ask(on.harness.conversation())

    assert answer.text == "done"
    shown_of(answer.texts)


async def test_annotations_say_what_is_safe_unless_the_application_does(tmp_path: Path) -> None:
    def load() -> dict[str, str]:
        made = mcp_server("desk", by_stdio(tmp_path), only=["add", "put", "wait"], replay={"put": "unsafe"})
        return {tool.name: tool.replay for tool in made.tools}

    hinted = {tool.name: tool.replay for tool in (await app_of(by_stdio(tmp_path), say(""))).extensions[0].tools}

    assert hinted == {
        "desk_add": "safe",
        "desk_put": "safe",
        "desk_send_mail": "unsafe",
        "desk_wait": "unsafe",
        "desk_picture": "unsafe",
        "desk_fail": "unsafe",
        "desk_secret": "unsafe",
    }
    assert await asyncio.to_thread(load) == {"desk_add": "safe", "desk_put": "unsafe", "desk_wait": "unsafe"}


async def test_server_that_dies_in_an_unsafe_call_is_told_of_and_started_anew(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = await app_of(by_stdio(tmp_path), call("desk_send_mail"), call("desk_add", a=1), say("done"))
    async with stage(server, app, tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())

    assert answer.texts[0] == (
        "<harness>\n[error] The connection to MCP server desk was lost while the tool ran: it may have run. "
        "Find out what it did before repeating it. (mcp_lost)\n</harness>"
    )
    assert not answer.results[1].is_error
    assert (tmp_path / "runs").read_text() == "send\n"


async def test_server_that_dies_in_a_safe_call_is_started_anew_and_called_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = await app_of(by_stdio(tmp_path), call("desk_put", path="f"), say("done"))
    async with stage(server, app, tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())

    assert answer.texts == ["there"]
    assert (tmp_path / "runs").read_text() == "put\nput\n"


async def test_server_that_died_between_two_calls_is_started_anew_unnoticed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool
    def kill() -> str:
        for process in servers_in(tmp_path):
            os.kill(process, signal.SIGKILL)
        return "killed"

    made = await app_of(by_stdio(tmp_path), call("desk_add", a=1), call("kill"), call("desk_add", a=2), say("done"))
    app = App(model=made.model, extensions=[*made.extensions, Extension("own", [kill])])
    async with stage(server, app, tmp_path / "store") as on:
        answer = await ask(on.harness.conversation())

    assert [result.is_error for result in answer.results] == [False, False, False]


USER = """
import asyncio, sys
from pathlib import Path
from tarry.mcp.connection import Connection
from tests.workflow.test_mcp import by_stdio

async def ignore(*_): pass

async def main():
    print(await Connection("desk", by_stdio(Path(sys.argv[1]))).call("add", {"a": 1}, ignore), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_server_of_a_worker_that_is_killed_ends_with_it(tmp_path: Path) -> None:
    async def left() -> list[int]:
        return servers_in(tmp_path)

    worker = await start(sys.executable, "-c", USER, str(tmp_path), cwd=ROOT, PYTHONPATH=str(ROOT))
    try:
        assert worker.stdout is not None
        assert b"sum" in await worker.stdout.readline()
        assert len(servers_in(tmp_path)) == 1
    finally:
        worker.kill()
        await worker.communicate()

    await eventually(left, lambda processes: not processes)


async def test_http_server_that_is_away_was_not_asked_and_is_found_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with by_http(tmp_path) as (there, port):
        app = await app_of(there, call("desk_add", a=1), say("done"))
    async with stage(server, app, tmp_path / "store") as on:
        conversation = on.harness.conversation()
        async with by_http(tmp_path, port):
            before = await ask(conversation)
        away = await ask(conversation)
        async with by_http(tmp_path, port):
            after = await ask(conversation)

    assert [answer.results[-1].is_error for answer in (before, away, after)] == [False, True, False]
    assert "MCP server desk cannot be reached, so the tool was not run: ConnectError" in away.texts[-1]


async def test_stop_cancels_the_call_at_the_server_and_progress_was_published(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = await app_of(by_stdio(tmp_path), call("desk_wait"), say("done"))

    async def is_cancelled() -> bool:
        return (tmp_path / "cancelled").exists()

    async with stage(server, app, tmp_path / "store", heartbeat_timeout=4.0) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        assert submission.view is not None
        call_id = f"{submission.view.generation_id}/t1.0"

        async def progress() -> bool:
            with contextlib.suppress(Exception):
                described = await on.client.get_workflow_handle(call_id).describe()
                return "half way" in str(described.raw_description.pending_activities)
            return False

        await eventually(progress)
        await conversation.abort()
        answer = await answer_to(conversation, submission)
        await eventually(is_cancelled)

    assert answer.codes == ["aborted"]
    assert answer.texts[0].startswith("half way\n")


async def test_server_that_is_not_there_when_the_application_is_loaded_is_named(tmp_path: Path) -> None:
    with pytest.raises(
        McpUnavailable, match=r"MCP server desk is needed to load the application: .*no program nonesuch"
    ):
        await app_of(StdioServer("nonesuch"))
    with pytest.raises(McpUnavailable, match=r"MCP server desk is needed .*ConnectError"):
        await app_of(HttpServer("http://127.0.0.1:9/mcp"))


async def test_tool_that_the_server_does_not_have_is_an_error_when_the_application_is_loaded(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"MCP server desk has no tool nothing; it has add, put"):
        await asyncio.to_thread(lambda: mcp_server("desk", by_stdio(tmp_path), only=["nothing"]))
