"""What scrolls by in a chat: a transcript as it grows, and the lines of an answer as they come.

Pure: views come in, lines for a terminal come out.
"""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from tarry.cli import render
from tarry.cli.live import result_line
from tarry.core.live import LiveMessage, LiveView
from tarry.core.messages import AssistantMessage, ToolMessage, UserMessage
from tarry.core.transcript import Entry

RESUMED = 12
"""Entries of an older conversation that are shown when a chat begins."""


class Scroll:
    """Remembers what was shown. Of an answer each line is shown once, when it is whole."""

    def __init__(self) -> None:
        self._next: int | None = None
        self._message = ""
        self._said = ""

    def take(self, view: LiveView) -> list[Text]:
        """The lines that are new."""
        first = view.entries[0].index if view.entries else 0
        if self._next is None:
            self._next = max(first, view.entries_end.index - RESUMED)
        lines: list[Text] = []
        if first > self._next:
            lines.append(Text(f"… {first - self._next} entries were missed: see /transcript", "dim"))
        for entry in view.entries:
            if entry.index >= self._next:
                lines += self._entry(entry)
                self._next = entry.index + 1
        if view.run is not None and view.run.message is not None:
            lines += self._stream(view.run.message)
        return lines

    def tail(self, view: LiveView) -> str:
        """What was said after the last whole line."""
        message = view.run.message if view.run is not None else None
        if message is None or message.id != self._message:
            return ""
        return message.text.text[max(0, len(self._said) - message.text.offset) :]

    def _stream(self, message: LiveMessage) -> Iterator[Text]:
        if message.id != self._message:
            self._message, self._said = message.id, ""
        text, offset = message.text.text, message.text.offset
        if offset > len(self._said):  # more was said at once than anybody keeps
            return
        new = text[len(self._said) - offset :]
        whole, newline, _ = new.rpartition("\n")
        if newline:
            self._said += whole + newline
            yield from (Text(line) for line in render.plain(whole).split("\n"))

    def _entry(self, entry: Entry) -> Iterator[Text]:
        match entry.message:
            case UserMessage(text=text) if entry.kind == "user":
                yield Text()
                yield Text.assemble(("› ", "bold cyan"), (render.plain(text), "bold"))
            case AssistantMessage() as message:
                yield from self._answer(message)
            case ToolMessage() as message:
                yield result_line(message, entry)
            case None if entry.note and entry.kind == "note":
                yield Text(render.plain(entry.note), "italic dim")
            case _ if entry.kind in ("reset", "compaction", "seed"):
                yield Text(f"── {entry.kind} ──", "dim")

    def _answer(self, message: AssistantMessage) -> Iterator[Text]:
        """What of it has not been shown while it came."""
        text = message.text
        if self._said and text.startswith(self._said):
            text = text[len(self._said) :]
        self._message, self._said = "", ""
        if text.strip():
            yield from (Text(line) for line in render.plain(text).rstrip("\n").split("\n"))
        if message.stop == "aborted":
            yield Text("(cut off)", "dim")
        yield from (render.call(request) for request in message.calls)
