"""A run on a terminal: what is over scrolls up, what goes on stays at the bottom until it is over.

Drawn on stderr, so that stdout holds the answer alone.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

from tarry.cli import render
from tarry.cli.follow import Follower, Moment, OpenCall
from tarry.client import Submission
from tarry.core.messages import AssistantMessage, ToolMessage
from tarry.core.protocol import SubmissionView
from tarry.core.transcript import Entry

LOOK_PAUSE = 0.2
"""Seconds between two looks."""

_TAIL_LINES = 10
_TAIL_CHARACTERS = 1_000
_LINE = 160


async def settled(submission: Submission, follower: Follower, console: Console | None) -> SubmissionView:
    """Wait for a submission's end, and show on `console`, if there is one, what happens meanwhile.

    Raises:
        NoSuchConversation, SubmissionRefused: as `Submission.wait`.
    """
    if console is None:
        return await submission.wait()
    end = asyncio.ensure_future(submission.wait())
    try:
        with RunDisplay(console) as display:
            while not end.done():
                display.show(await follower.look())
                await asyncio.wait({end}, timeout=LOOK_PAUSE)
            display.show(await follower.rest())
        return await end
    finally:
        end.cancel()


class RunDisplay:
    """Shows moments as they come. As a context it takes the bottom of the terminal and gives it back."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, transient=True, refresh_per_second=8)
        self._spinner = Spinner("dots")

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, moment: Moment) -> None:
        """Add what is over to the scroll and replace the rest."""
        for entry in moment.entries:
            for line in scrolled(entry):
                self._live.console.print(line, soft_wrap=True)
        self._spinner.update(text=Text(moment.doing, "dim"))
        self._live.update(Group(*going_on(moment, datetime.now(UTC)), self._spinner))


def scrolled(entry: Entry) -> list[Text]:
    """An entry as it passes by. The answer is left out: it is the command's result."""
    match entry.message:
        case AssistantMessage() as message if message.calls or message.stop == "aborted":
            said = [Text(render.plain(message.text), "dim")] if message.text.strip() else []
            return [*said, *(render.call(request) for request in message.calls)]
        case ToolMessage() as message:
            return [_result(message, entry)]
        case None:
            return [Text(render.plain(entry.note), "italic dim")]
    return []


def _result(message: ToolMessage, entry: Entry) -> Text:
    sign, style = ("✗", "red") if message.is_error else ("✓", "green")
    spent = f"{entry.tool.duration_ms / 1000:.1f} s" if entry.tool else ""
    return Text.assemble((f"{sign} ", style), (message.name, "bold"), f" {spent}  ", (_last_line(message.text), "dim"))


def going_on(moment: Moment, now: datetime) -> list[RenderableType]:
    """What has no end yet: the text that streams, and the calls that run."""
    lines = render.plain(moment.streamed[-_TAIL_CHARACTERS:]).splitlines()[-_TAIL_LINES:]
    return [*(Text(line) for line in lines), *(_running(call, now) for call in moment.calls)]


def _running(call: OpenCall, now: datetime) -> Text:
    since = render.duration(now - call.since)
    drawn = Text.assemble(("… ", "cyan"), (render.plain(call.label), "bold"), (f" {since}  ", "dim"))
    return drawn.append(_last_line(call.output), "dim")


def _last_line(text: str) -> str:
    lines = render.plain(text).strip().splitlines() or [""]
    return lines[-1][:_LINE]
