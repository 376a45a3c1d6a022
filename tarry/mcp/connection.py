"""The connection of a process to one MCP server, in a thread and event loop of its own (spec §15.3).

Opened when it is first needed, kept, and opened again after it was lost.
"""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

from mcp import Client, MCPError
from mcp.shared.dispatcher import ProgressFnT
from mcp.types import CONNECTION_CLOSED, CallToolResult, Tool

from tarry.mcp.servers import CONNECT_SECONDS, McpServer

T = TypeVar("T")

MAX_PAGES = 100
END_SECONDS = 0.5
_UNKNOWN_SESSION = frozenset(
    {"session not found", "session terminated", "not found: invalid or expired session id"},
)
"""What servers, and the library for them, answer to a call in a session that they do not know, and do not look at."""

_URL = re.compile(r"""(?P<scheme>\w+://)(?:[^\s/?#'"]*@)?(?P<place>[^\s?#'"]*)(?P<query>[?#][^\s'"]*)?""")
_HEADER = re.compile(r"((?i:illegal header value)) .*")


class McpUnavailable(Exception):
    """A server cannot be reached; what was asked of it was not done."""


class McpLost(Exception):
    """The connection ended in the middle of a call; whether it was done is not known."""


@dataclass
class _Open:
    """A connection that was opened. Its task holds it until it is lost."""

    client: Client
    over: asyncio.Event
    holder: asyncio.Task[None]
    calls: int = 0
    is_retired: bool = False

    @property
    def is_usable(self) -> bool:
        """Whether a new call may use it."""
        return not (self.is_retired or self.over.is_set() or self.holder.done())

    def retire(self) -> None:
        """Let no new call use it, and end it after those that do."""
        self.is_retired = True
        if not self.calls:
            self.over.set()


class Connection:
    """The way to `server`, from any thread."""

    def __init__(self, name: str, server: McpServer) -> None:
        self._name = name
        self._server = server
        self._guard = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: _Open | None = None
        self._opening: asyncio.Lock | None = None

    def list_tools(self) -> list[Tool]:
        """The tools that the server has now; blocks, and leaves no connection open.

        Raises:
            McpUnavailable: it cannot be reached, or does not answer.
        """
        return self._start(self._listed()).result()

    async def call(self, tool: str, arguments: dict[str, Any], progress: ProgressFnT) -> CallToolResult:
        """Call a tool; cancelled, the server is told.

        Raises:
            McpUnavailable: the server cannot be reached, and was not asked.
            McpLost: the connection ended before the answer came.
            MCPError: the server answered with an error.
        """
        return await asyncio.wrap_future(self._start(self._called(tool, arguments, progress)))

    def _start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        with self._guard:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name=f"tarry-mcp-{self._name}", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    async def _listed(self) -> list[Tool]:
        opened = await self._opened()
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                return await self._while_open(opened, _all_tools(opened.client))
        except (McpLost, MCPError, TimeoutError) as error:
            raise McpUnavailable(f"it does not list its tools: {_reason(error)}") from error
        finally:
            opened.retire()

    async def _called(self, tool: str, arguments: dict[str, Any], progress: ProgressFnT) -> CallToolResult:
        opened = await self._opened()
        try:
            return await self._while_open(opened, opened.client.call_tool(tool, arguments, None, progress))
        except MCPError as error:
            # Whatever else is called an invalid request may have been carried out before it was answered so.
            if error.message.strip().lower() not in _UNKNOWN_SESSION:
                raise
        # The server was started anew.
        opened.retire()
        opened = await self._opened()
        return await self._while_open(opened, opened.client.call_tool(tool, arguments, None, progress))

    async def _while_open(self, opened: _Open, asking: Coroutine[Any, Any, T]) -> T:
        """What an answer is, unless the connection ends first."""
        task = asyncio.ensure_future(asking)
        opened.calls += 1
        try:
            await asyncio.wait({task, opened.holder}, return_when=asyncio.FIRST_COMPLETED)
            if task.done():
                return task.result()
        except MCPError as error:
            if error.code != CONNECTION_CLOSED:
                raise
        finally:
            task.cancel()
            opened.calls -= 1
            if opened.is_retired:
                opened.retire()
        opened.retire()
        # When it broke as a whole, it says so at once.
        await asyncio.wait({opened.holder}, timeout=END_SECONDS)
        why = opened.holder.exception() if opened.holder.done() else None
        if why is not None and _is_refused(why):
            raise McpUnavailable(_reason(why)) from why
        raise McpLost("the connection was lost") from why

    async def _opened(self) -> _Open:
        if self._opening is None:
            self._opening = asyncio.Lock()
        async with self._opening:
            if self._open is None or not self._open.is_usable:
                self._open = await self._connect()
            return self._open

    async def _connect(self) -> _Open:
        ready: asyncio.Future[Client] = asyncio.get_running_loop().create_future()
        over = asyncio.Event()
        holder = asyncio.create_task(self._hold(ready, over))
        holder.add_done_callback(_take_error)
        first: list[asyncio.Future[Any]] = [ready, holder]
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:  # nobody would ever use it, or end it
            holder.cancel()
            raise
        except TimeoutError:
            holder.cancel()
            raise McpUnavailable(f"it does not answer within {CONNECT_SECONDS:g} s") from None
        if not ready.done():
            raise McpUnavailable(_reason(holder.exception()))
        return _Open(ready.result(), over, holder)

    async def _hold(self, ready: asyncio.Future[Client], over: asyncio.Event) -> None:
        async with Client(self._server.connect(over.set)) as client:
            ready.set_result(client)
            await over.wait()


def _take_error(task: asyncio.Task[None]) -> None:
    """Whoever asks next is told; nobody else need be."""
    if not task.cancelled():
        task.exception()


async def _all_tools(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    for _ in range(MAX_PAGES):
        page = await client.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            break
    return tools


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


def _is_refused(error: BaseException) -> bool:
    """Whether nothing was sent: no connection could be made."""
    return all(type(leaf).__name__ in ("ConnectError", "ConnectTimeout") for leaf in _leaves(error))


def _reason(error: BaseException | None) -> str:
    """Why, in one line. It goes to the model and into history: addresses come without keys, headers not at all."""
    if error is None:
        return "it ended at once"
    first = _leaves(error)[0]
    text = _URL.sub(_without_keys, " ".join(f"{type(first).__name__}: {first}".split()))
    return _HEADER.sub(r"\1 (not shown)", text)


def _without_keys(url: re.Match[str]) -> str:
    return f"{url['scheme']}{url['place']}{'?…' if url['query'] else ''}"
