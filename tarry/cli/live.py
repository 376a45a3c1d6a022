"""A run on a terminal: what is over scrolls up, what goes on stays at the bottom until it is over.

Drawn on stderr, so that stdout holds the answer alone.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from datetime import UTC, datetime
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text
from temporalio.service import RPCError

from tarry.cli import render
from tarry.cli.follow import AWAY, Following, doing
from tarry.client import Harness, Submission, TarryError
from tarry.core.live import LiveCall, LiveRun
from tarry.core.messages import AssistantMessage, ToolMessage
from tarry.core.protocol import SubmissionView
from tarry.core.transcript import Entry

_END_PATIENCE = 2.0
"""Seconds in which the last entries of a run show up after its answer."""

_TAIL_LINES = 10
_TAIL_CHARACTERS = 1_000
_LINE = 160


async def settled(harness: Harness, submission: Submission, console: Console | None) -> SubmissionView:
    """Wait for a submission's end, and show on `console`, if there is one, what happens meanwhile.

    Raises:
        NoSuchConversation, SubmissionRefused: as `Submission.wait`.
    """
    if console is None:
        return await submission.wait()
    end = asyncio.ensure_future(submission.wait())
    with RunDisplay(console) as display:
        showing = asyncio.ensure_future(_show(harness, submission, display))
        try:
            await asyncio.wait({end})
            await asyncio.wait({showing}, timeout=_END_PATIENCE)
            return end.result()
        finally:
            end.cancel()
            showing.cancel()
            await asyncio.gather(end, showing, return_exceptions=True)


async def _show(harness: Harness, submission: Submission, display: RunDisplay) -> None:
    """Until its run is over. Whatever is wrong with the conversation, the wait for its end says."""
    following = Following(submission.request_id)
    with contextlib.suppress(TarryError, RPCError):
        async with contextlib.aclosing(harness.conversation(submission.conversation_id).watch()) as changes:
            async for change in changes:
                entries = following.take(change.view)
                what = doing(change.view, submission.request_id, harness.settings.task_queue)
                display.show(change.view.run, entries, what)
                if following.is_over:
                    return


async def doing_now(harness: Harness, submission: Submission) -> str:
    """What goes on, found out at once."""
    with contextlib.suppress(TarryError, RPCError):
        async with contextlib.aclosing(harness.conversation(submission.conversation_id).watch()) as changes:
            async for change in changes:
                return doing(change.view, submission.request_id, harness.settings.task_queue)
    return AWAY


class RunDisplay:
    """Shows views as they come. As a context it takes the bottom of the terminal and gives it back."""

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

    def show(self, run: LiveRun | None, entries: Iterable[Entry], doing: str) -> None:
        """Add what is over to the scroll and replace the rest."""
        for entry in entries:
            for line in scrolled(entry):
                self._live.console.print(line, soft_wrap=True)
        self._spinner.update(text=Text(doing, "dim"))
        lines = going_on(run, datetime.now(UTC)) if run is not None else []
        self._live.update(Group(*lines, self._spinner))


def scrolled(entry: Entry) -> list[Text]:
    """An entry as it passes by. The answer is left out: it is the command's result."""
    match entry.message:
        case AssistantMessage() as message if message.calls or message.stop == "aborted":
            said = [Text(render.plain(message.text), "dim")] if message.text.strip() else []
            return [*said, *(render.call(request) for request in message.calls)]
        case ToolMessage() as message:
            return [result_line(message, entry)]
        case None:
            return [Text(render.plain(entry.note), "italic dim")]
    return []


def result_line(message: ToolMessage, entry: Entry) -> Text:
    """How a call ended, on one line."""
    sign, style = ("✗", "red") if message.is_error else ("✓", "green")
    spent = f"{entry.tool.duration_ms / 1000:.1f} s" if entry.tool else ""
    content, _, remarks = f"\n{message.text}".partition("\n<harness>\n")
    said = _last_line(content) or _last_line(remarks.partition("\n")[0])  # of a call that left nothing else, why
    return Text.assemble((f"{sign} ", style), (render.plain(message.name), "bold"), f" {spent}  ", (said, "dim"))


def going_on(run: LiveRun, now: datetime) -> list[RenderableType]:
    """What has no end yet: the text that streams, and the calls that are open."""
    said = run.message.text.text if run.message is not None else ""
    lines = render.plain(said[-_TAIL_CHARACTERS:]).splitlines()[-_TAIL_LINES:]
    return [*(Text(line) for line in lines), *(running(call, now) for call in run.calls if call.status != "done")]


def running(call: LiveCall, now: datetime) -> Text:
    """An open call on one line: what it is about, for how long, and what it published last."""
    since = f" {render.duration(now - call.since)}  " if call.since else "  "
    state = f"{call.status}  " if call.status != "running" else ""
    drawn = Text.assemble(("… ", "cyan"), (render.plain(call.label or call.tool), "bold"), (since + state, "dim"))
    return drawn.append(_last_line(call.output.text), "dim")


def _last_line(text: str) -> str:
    lines = render.plain(text).strip().splitlines() or [""]
    return lines[-1][:_LINE]
