"""How an MCP server is reached."""

from __future__ import annotations

import shutil
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self

import httpx2
from mcp import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tarry.tether import tethered

CONNECT_SECONDS = 30.0


class McpServer(Protocol):
    """A server; `StdioServer` and `HttpServer` are the two that there are."""

    def connect(self, lost: Callable[[], None]) -> AbstractAsyncContextManager[Any]:
        """A new connection; `lost` is called when it is seen to have ended."""
        ...


@dataclass(frozen=True)
class StdioServer:
    """A program that speaks MCP on stdin and stdout; it ends with the worker (Linux), and its stderr is the worker's.

    It gets `PATH`, `HOME` and such of the worker's variables, and `variables`.
    """

    command: str
    arguments: Sequence[str] = ()
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    folder: Path | None = None

    @asynccontextmanager
    async def connect(self, lost: Callable[[], None]) -> AsyncIterator[Any]:
        """See `McpServer.connect`."""
        if shutil.which(self.command) is None:
            raise FileNotFoundError(f"there is no program {self.command}")
        program, *arguments = tethered([self.command, *self.arguments])
        parameters = StdioServerParameters(command=program, args=arguments, env=dict(self.variables), cwd=self.folder)
        async with stdio_client(parameters, errlog=sys.stderr) as (reader, writer):
            yield _Watched(reader, lost), writer


@dataclass(frozen=True)
class HttpServer:
    """A server that speaks MCP over streamable HTTP; `headers` go along with every request, for authorization say."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @asynccontextmanager
    async def connect(self, lost: Callable[[], None]) -> AsyncIterator[Any]:
        """See `McpServer.connect`. Its end shows when a request fails."""
        # How long a call may be silent is for the tool's timeout to say.
        timeout = httpx2.Timeout(CONNECT_SECONDS, read=None)
        async with (
            httpx2.AsyncClient(headers=dict(self.headers), timeout=timeout) as client,
            streamable_http_client(self.url, http_client=client) as streams,
        ):
            yield streams


class _Watched:
    """Messages as they come in, and a call when there will be no more."""

    def __init__(self, messages: Any, over: Callable[[], None]) -> None:
        self._messages = messages
        self._over = over

    async def receive(self) -> Any:
        return await self._messages.receive()

    async def aclose(self) -> None:
        await self._messages.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await anext(self._messages)
        except StopAsyncIteration:
            self._over()
            raise

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
