"""The tools of an MCP server as an extension: its list as it was when the application was loaded (spec §15)."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from mcp import MCPError
from mcp.types import Tool as Listed
from pydantic import TypeAdapter

from tarry.api import ToolApi
from tarry.app import Extension
from tarry.mcp.connection import Connection, McpLost, McpUnavailable
from tarry.mcp.results import result_of
from tarry.mcp.servers import McpServer
from tarry.schemas import parameters_of
from tarry.tools import Replay, RetryTool, Tool, ToolResult

MAX_NAME = 64
CALL_TIMEOUT = timedelta(minutes=10)


def mcp_server(
    name: str,
    server: McpServer,
    *,
    only: Sequence[str] | None = None,
    replay: Mapping[str, Replay] | None = None,
    timeout: timedelta = CALL_TIMEOUT,
) -> Extension:
    """An extension with the tools of a server, each named `<name>_<tool>`, with the schema that the server gives.

    The server is asked for its list here, once: what it changes later counts when the application is loaded again. Each
    process connects when it first calls a tool, and again after the connection was lost.

    Args:
        name: of the extension.
        server: how it is reached.
        only: of its tools these, by the server's names; all by default.
        replay: by the server's name of a tool, in place of what its annotations say: `safe` when it only reads or is
            idempotent, else `unsafe`. Annotations are the server's own word.
        timeout: of one call; then the server is told that it is cancelled.

    Raises:
        McpUnavailable: the server does not say which tools it has.
        ValueError: it lacks one of `only`, or a schema is none.
    """
    connection = Connection(name, server)
    try:
        listed = connection.list_tools()
    except McpUnavailable as error:
        raise McpUnavailable(f"MCP server {name} is needed to load the application: {error}") from error
    if missing := sorted({*(only or ()), *(replay or ())} - {tool.name for tool in listed}):
        raise ValueError(
            f"MCP server {name} has no tool {missing[0]}; it has {', '.join(tool.name for tool in listed)}"
        )
    wanted = [tool for tool in listed if only is None or tool.name in only]
    names = legal_names(name, [tool.name for tool in wanted])
    tools = [
        _tool(connection, name, tool, legal, (replay or {}).get(tool.name) or _hinted(tool), timeout)
        for tool, legal in zip(wanted, names, strict=True)
    ]
    return Extension(name, tools)


def legal_names(server: str, tools: Sequence[str]) -> list[str]:
    """A name for each tool that every provider takes; the same for the same tool, whatever stands beside it in a list.

    What is too long, or made equal to another by leaving characters out, ends in a digest of the server's own name.
    """
    plain = [re.sub(r"[^A-Za-z0-9_-]", "_", f"{server}_{tool}") for tool in tools]
    count = Counter(plain)
    return [
        legal if len(legal) <= MAX_NAME and count[legal] == 1 else _digested(legal, tool)
        for legal, tool in zip(plain, tools, strict=True)
    ]


def _digested(legal: str, tool: str) -> str:
    return f"{legal[: MAX_NAME - 9]}_{hashlib.sha256(tool.encode()).hexdigest()[:8]}"


def _hinted(tool: Listed) -> Replay:
    hints = tool.annotations
    return "safe" if hints is not None and (hints.read_only_hint or hints.idempotent_hint) else "unsafe"


def _tool(connection: Connection, server: str, listed: Listed, name: str, replay: Replay, timeout: timedelta) -> Tool:
    async def call(root: dict[str, Any], api: ToolApi) -> ToolResult:
        async def publish(progress: float, total: float | None, message: str | None) -> None:
            if message:
                api.output(f"{message}\n")

        try:
            return result_of(await connection.call(listed.name, root, publish), api)
        except McpUnavailable as error:
            told = f"MCP server {server} cannot be reached, so the tool was not run: {error}. Try again later."
            return _refused(api, "mcp_unavailable", told)
        except McpLost as error:
            if replay == "safe":
                raise RetryTool(f"MCP server {server} was lost: {error}") from error
            told = (
                f"The connection to MCP server {server} was lost while the tool ran: it may have run. "
                "Find out what it did before repeating it."
            )
            return _refused(api, "mcp_lost", told)
        except MCPError as error:
            return _refused(api, "mcp_error", f"MCP server {server} answered with error {error.code}: {error.message}")

    return Tool(
        name=name,
        description=listed.description or listed.title or "",
        parameters=parameters_of(name, listed.input_schema),
        function=call,
        replay=replay,
        timeout=timeout,
        output=TypeAdapter(Any) if listed.output_schema is not None else None,
        takes_api=True,
    )


def _refused(api: ToolApi, code: str, message: str) -> ToolResult:
    api.diagnostic(message, severity="error", code=code)
    return ToolResult("", is_error=True)
