"""An MCP server for tests, by stdio or HTTP: `python -m tests.support.mcp_server [port]`.

What its tools do outside is in the folder that MCP_FOLDER names.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.types import ImageContent, TextContent, ToolAnnotations

FOLDER = Path(os.environ.get("MCP_FOLDER", "."))

server = MCPServer("desk")


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def add(a: int, b: int = 1) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


@server.tool(annotations=ToolAnnotations(idempotent_hint=True), structured_output=False)
def put(path: str) -> str:
    """Does not survive its first run."""
    with (FOLDER / "runs").open("a") as file:
        file.write("put\n")
    if not (FOLDER / path).exists():
        (FOLDER / path).touch()
        os._exit(9)
    return "there"


@server.tool(name="send.mail", structured_output=False)
def send() -> str:
    """Does not survive any run."""
    with (FOLDER / "runs").open("a") as file:
        file.write("send\n")
    os._exit(9)


@server.tool(structured_output=False)
async def wait(context: Context[Any]) -> str:
    """Wait for ever."""
    await context.report_progress(1, 2, "half way")
    try:
        await asyncio.sleep(600)
    except asyncio.CancelledError:
        (FOLDER / "cancelled").touch()
        raise
    return "over"


@server.tool(structured_output=False)
def picture() -> list[TextContent | ImageContent]:
    """A text and a picture."""
    return [
        TextContent(type="text", text="a cat"),
        ImageContent(type="image", data="AAAA", mime_type="image/png"),
        TextContent(type="text", text="a dog"),
    ]


@server.tool(structured_output=False)
def fail() -> str:
    """Fail."""
    raise ValueError("no luck")


@server.tool(structured_output=False)
def secret() -> str:
    """What the server knows of its environment."""
    return ",".join(sorted(name for name in os.environ if "KEY" in name or name.startswith("MCP")))


if __name__ == "__main__":
    logging.disable()
    if len(sys.argv) > 1:
        server.run("streamable-http", port=int(sys.argv[1]))
    else:
        server.run()
