"""What is called again at an MCP server that was started anew, and what never is (spec §15.3)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from mcp import Client, MCPError
from mcp.types import INVALID_REQUEST, CallToolResult, TextContent

from tarry.mcp.connection import Connection, _Open
from tarry.mcp.servers import HttpServer, McpServer
from tests.support.waiting import PATIENCE


class Mute(McpServer):
    """A server that is begun, and never says a word."""

    def __init__(self) -> None:
        self.has_begun = threading.Event()
        self.has_ended = threading.Event()

    @asynccontextmanager
    async def connect(self, lost: Callable[[], None]) -> AsyncIterator[Any]:
        self.has_begun.set()
        try:
            yield await asyncio.Event().wait()
        finally:
            self.has_ended.set()


class Answers:
    """A client that answers each call with the next of these."""

    def __init__(self, *answers: CallToolResult | MCPError) -> None:
        self.calls = 0
        self._answers = answers

    async def call_tool(self, *_: Any) -> CallToolResult:
        answer = self._answers[self.calls]
        self.calls += 1
        if isinstance(answer, MCPError):
            raise answer
        return answer


class Scripted(Connection):
    """A connection to it."""

    def __init__(self, client: Answers) -> None:
        super().__init__("scripted", HttpServer("http://localhost"))
        self._client = client
        self._opened_ones: list[_Open] = []

    async def _connect(self) -> _Open:
        over = asyncio.Event()

        async def hold() -> None:
            await over.wait()

        self._opened_ones.append(_Open(cast("Client", self._client), over, asyncio.create_task(hold())))
        return self._opened_ones[-1]

    def end(self) -> None:
        assert self._loop is not None
        for opened in self._opened_ones:
            self._loop.call_soon_threadsafe(opened.over.set)


async def call(client: Answers) -> CallToolResult:
    async def progress(progress: float, total: float | None, message: str | None) -> None: ...

    connection = Scripted(client)
    try:
        return await connection.call("pay", {}, progress)
    finally:
        connection.end()


async def test_call_that_is_stopped_while_its_server_is_begun_leaves_no_server_behind() -> None:
    async def progress(progress: float, total: float | None, message: str | None) -> None: ...

    server = Mute()
    calling = asyncio.create_task(Connection("mute", server).call("pay", {}, progress))
    assert await asyncio.to_thread(server.has_begun.wait, PATIENCE)

    calling.cancel()

    assert await asyncio.to_thread(server.has_ended.wait, 10)


FINE = CallToolResult(content=[TextContent(text="paid")])


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (INVALID_REQUEST, "Session terminated"),
        (INVALID_REQUEST, "Not Found: Invalid or expired session ID"),
        (-32001, "Session not found"),
    ],
)
async def test_call_in_a_session_that_the_server_does_not_know_is_made_in_another(code: int, message: str) -> None:
    client = Answers(MCPError(code, message), FINE)

    assert await call(client) == FINE
    assert client.calls == 2


@pytest.mark.parametrize(
    "message",
    [
        "server answered a request with 202 Accepted",
        "Unexpected content type: text/html",
        "Session terminated before the request completed",
    ],
)
async def test_call_that_may_have_been_carried_out_is_not_made_again(message: str) -> None:
    client = Answers(MCPError(INVALID_REQUEST, message), FINE)

    with pytest.raises(MCPError):
        await call(client)
    assert client.calls == 1
