# The tools of an MCP server: a program of its own that speaks on stdin and stdout, written below. It dies in the middle
# of a call; the agent reads that nobody knows what became of it and looks, which starts the server anew.
#
#     .venv/bin/python examples/20_mcp_tools.py

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.types import ToolAnnotations

from tarry import App
from tarry.mcp import StdioServer, mcp_server
from tarry.models import ModelRequest
from tarry.testing import Call, Reply, ScriptedModel, Stage, Step, call, calls, say

server = MCPServer("shelf")


def shelf() -> Path:
    return Path(os.environ["SHELF"])


@server.tool(annotations=ToolAnnotations(read_only_hint=True))
def books() -> list[str]:
    """The books on the shelf."""
    return sorted(file.name for file in shelf().iterdir())


@server.tool()
def add_book(title: str, copies: int = 1) -> str:
    """Put a book on the shelf. The heavy one is too much for it."""
    (shelf() / title).write_text(str(copies))
    if title == "The heavy one":
        os._exit(1)
    return f"{copies} of {title}"


def look(request: ModelRequest) -> Call:
    assert "it may have run" in request.messages[-1].text
    return call("shelf_books")


def report(request: ModelRequest) -> Reply:
    return say(f"On the shelf: {', '.join(request.messages[-1].text.splitlines())}")


def application() -> App:
    """What a worker loads: the server is started for its list of tools, and again when a tool is first called."""
    program = StdioServer(sys.executable, [__file__, "serve"], variables={"SHELF": os.environ["SHELF"]})
    bad = call("shelf_add_book", title="Emma", copies="many")
    good = call("shelf_add_book", title="Emma", copies=2)
    steps: list[Step] = [calls(bad, good), call("shelf_add_book", title="The heavy one"), look, report]
    return App(model=ScriptedModel(steps), extensions=[mcp_server("shelf", program)])


async def main() -> None:
    with tempfile.TemporaryDirectory(prefix="tarry-example-") as folder:
        async with Stage("examples.20_mcp_tools:app") as stage:
            await stage.start_worker(SHELF=folder)
            conversation = stage.harness.conversation()
            settled = await (await conversation.submit("Fill the shelf.")).wait()
            for entry in await conversation.transcript():
                if entry.message is not None and entry.message.role == "tool":
                    print(entry.message.text.strip())
            print(settled.answer_text)


if __name__ != "__main__":  # a worker's: `main` has no shelf, and needs no server
    app = application()
elif sys.argv[1:] == ["serve"]:
    server.run()
else:
    asyncio.run(main())
