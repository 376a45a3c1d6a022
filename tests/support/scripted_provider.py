"""A provider that plays raw HTTP replies from a script, for what no well-behaved server would send.

A real TCP server on 127.0.0.1 and a free port: what the client sees of bytes, pauses, resets and ends is real.
"""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Literal

End = Literal["clean", "cut", "reset", "held"]
"""`cut` closes before the body is whole, `reset` aborts the connection, `held` waits for the client to hang up."""


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Reply:
    """One reply: its body in the pieces and pauses in which it leaves."""

    steps: tuple[bytes | Pause, ...]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": "text/event-stream"})
    end: End = "clean"


@dataclass(frozen=True)
class Received:
    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]


class ScriptedProvider:
    """Answers each request with the next reply; a request too many fails loudly with 599."""

    def __init__(self, *replies: Reply) -> None:
        self.requests: list[Received] = []
        self.hung_up = asyncio.Event()
        self.waiting = asyncio.Event()
        self._replies = list(replies)
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    async def __aenter__(self) -> ScriptedProvider:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self._port: int = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self._read_request(reader):
                reply = self._replies.pop(0) if self._replies else Reply((b"the script has run out",), status=599)
                await self._play(reply, writer)
                if reply.end == "held":
                    self.waiting.set()
                    await reader.read(1)
                    self.hung_up.set()
                if reply.end != "clean":
                    return
        except ConnectionError:
            self.hung_up.set()
        finally:
            writer.close()

    async def _read_request(self, reader: asyncio.StreamReader) -> bool:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        except asyncio.IncompleteReadError:
            return False
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.requests.append(Received(first.split()[1], headers, body))
        return True

    async def _play(self, reply: Reply, writer: asyncio.StreamWriter) -> None:
        head = [f"HTTP/1.1 {reply.status} Scripted", "Transfer-Encoding: chunked"]
        head += [f"{name}: {value}" for name, value in reply.headers.items()]
        writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        for step in reply.steps:
            if isinstance(step, Pause):
                await writer.drain()
                await asyncio.sleep(step.seconds)
            else:
                writer.write(f"{len(step):x}\r\n".encode() + step + b"\r\n")
        if reply.end == "clean":
            writer.write(b"0\r\n\r\n")
        await writer.drain()
        if reply.end == "reset":
            raw: socket.socket = writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


def sse(*events: object) -> bytes:
    """Server-sent events, one for each; JSON unless it is text already."""
    return b"".join(f"data: {e if isinstance(e, str) else json.dumps(e)}\n\n".encode() for e in events)


def failing(status: int, body: object, **headers: str) -> Reply:
    """An error reply; a header's name is written with `_` for `-`."""
    text = body if isinstance(body, str) else json.dumps(body)
    return Reply(
        (text.encode(),),
        status=status,
        headers={
            "Content-Type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        },
    )


def chat_chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    """A chat completion chunk with one choice."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}


def chat_call(
    index: int | None = None, call_id: str | None = None, name: str | None = None, arguments: str | None = None
) -> dict[str, Any]:
    """A chunk with one fragment of a tool call; what is None is left out."""
    function = {key: value for key, value in {"name": name, "arguments": arguments}.items() if value is not None}
    call = {"index": index, "id": call_id, "function": function}
    return chat_chunk(tool_calls=[{key: value for key, value in call.items() if value is not None}])


CHAT_ANSWER = Reply((sse(chat_chunk(content="fine")), sse(chat_chunk("stop"), "[DONE]")))
"""The shortest whole chat answer: `fine`."""
