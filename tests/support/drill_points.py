"""Where workers of a drill stop, and where they write what no crash can undo: used by their applications."""

from __future__ import annotations

import asyncio
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tarry.core.messages import ToolMessage
from tarry.models import ModelRequest, ModelResponse
from tarry.testing import ScriptedModel
from tarry.testing.steps import Step


def record(file: str, **facts: Any) -> None:
    """Add a line to a file of the drill's folder."""
    with (Path(os.environ["DRILL_FOLDER"]) / file).open("a") as out:
        out.write(json.dumps(facts) + "\n")


def _arrival(point: str, conversation_id: str) -> bytes:
    facts = {"point": point, "conversation_id": conversation_id, "pid": os.getpid()}
    return json.dumps(facts).encode() + b"\n"


def stop_at(point: str, conversation_id: str) -> None:
    """Tell the drill that this point is reached, and return when it says so."""
    host, _, port = os.environ["DRILL_POINTS"].partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(_arrival(point, conversation_id))
        connection.recv(1)


async def stop_model_at(point: str, conversation_id: str) -> None:
    """`stop_at` for code on the worker's own loop."""
    host, _, port = os.environ["DRILL_POINTS"].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(_arrival(point, conversation_id))
        await reader.read(1)
    finally:
        writer.close()


class StoppingModel:
    """Plays its script, with a stop before each answer's way back and one in the middle of each text."""

    name = "drill/1"

    def __init__(self, *steps: Step) -> None:
        self._script = ScriptedModel.for_each_input(steps)

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        """The script's answer; its text streams in two halves."""
        record("requests", **request.model_dump(mode="json"))
        await stop_model_at(_next_request(request), request.session_id)
        response = await self._script.respond(request, lambda _: None)
        text = response.message.text
        if text:
            on_text(text[: len(text) // 2])
            await stop_model_at("mid-stream", request.session_id)
            on_text(text[len(text) // 2 :])
        await stop_model_at("answered", request.session_id)
        return response


def _next_request(request: ModelRequest) -> str:
    return "request after a result" if isinstance(request.messages[-1], ToolMessage) else "request"
