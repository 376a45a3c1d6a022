"""The tool `bash`: a command in the environment, its output live and its end as it was (spec §14.7)."""

from __future__ import annotations

import codecs
from collections import deque
from typing import Annotated

from pydantic import Field

from tarry.api import ToolApi
from tarry.coding.results import refused
from tarry.tools import ToolResult, tool

HALF_KEPT = 4 * 1024 * 1024
"""Characters that are kept of the start of an output, and of its end."""


class KeptOutput:
    """The text of an output: its start and its end, and how much came between."""

    def __init__(self, half: int = HALF_KEPT) -> None:
        self._half = half
        self._head: list[str] = []
        self._head_size = 0
        self._tail: deque[str] = deque()
        self._tail_size = 0
        self._dropped = 0

    def add(self, text: str) -> None:
        """Append."""
        room = self._half - self._head_size
        start, rest = text[:room], text[room:]
        if start:
            self._head.append(start)
            self._head_size += len(start)
        if rest:
            self._tail.append(rest)
            self._tail_size += len(rest)
        while self._tail and self._tail_size - len(self._tail[0]) >= self._half:
            self._dropped += len(self._tail[0])
            self._tail_size -= len(self._tail.popleft())

    @property
    def text(self) -> str:
        """All of it, with a note where something is missing."""
        note = [f"\n[… {self._dropped} characters were not kept …]\n"] if self._dropped else []
        return "".join([*self._head, *note, *self._tail])


@tool
def bash(
    command: Annotated[str, Field(description="The command line")],
    api: ToolApi,
    timeout: Annotated[
        float | None, Field(gt=0, description="Seconds after which it is killed; none by default")
    ] = None,
) -> ToolResult:
    """Run a command line in the working directory and read its output, stdout and stderr as they came.

    The last 2,000 lines or 50 KB are shown. A command has no input, and each starts in a new shell.
    """
    kept = KeptOutput()
    decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def publish(piece: bytes) -> None:
        text = decoder.decode(piece)
        kept.add(text)
        api.output(text)

    end = api.env.exec(command, publish, timeout=timeout, is_stopped=lambda: api.is_cancelled)
    kept.add(decoder.decode(b"", final=True))
    if end.ended == "timeout":
        told = f"The command was killed after {timeout:g} s, with all it had started; what it did until then stays."
        return refused(api, "timeout", told, kept.text, {"exit_code": None})
    if end.ended == "stopped":  # whoever stopped it says so
        return ToolResult(kept.text, keep="tail")
    if end.code != 0:
        return refused(
            api, "exit_code", f"The command ended with exit code {end.code}.", kept.text, {"exit_code": end.code}
        )
    return ToolResult(kept.text, details={"exit_code": 0}, keep="tail")
