"""A chat on a terminal: what is over scrolls up, what goes on and the line to type stay at the bottom.

The terminal is given back however it ends: drawing and raw mode belong to contexts.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import shutil
import signal
from collections.abc import Callable, Coroutine, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prompt_toolkit import PromptSession
from prompt_toolkit.formatted_text import ANSI
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.patch_stdout import patch_stdout
from rich.console import Console
from rich.text import Text
from temporalio.service import RPCError

from tarry.cli import render
from tarry.cli.chat_answers import asked
from tarry.cli.chat_room import Room
from tarry.cli.chat_scroll import Scroll
from tarry.cli.live import running
from tarry.client import NoSuchConversation

HISTORY = Path(".tarry/chat_history")
_TAIL_LINES = 6
_CALLS_SHOWN = 6
_QUEUED_SHOWN = 3
_REFRESH = 0.5
_RETRY_PAUSE = 1.0
_LEAVE_PATIENCE = 10.0
"""Seconds in which what was typed before somebody left is still sent."""


def _keep_private(path: Path) -> None:
    """Make the file, or one that is there already, its owner's alone: what people type is nobody else's."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.chmod(0o600)


def _history() -> History:
    """What was typed in this folder, in other chats too; of this one alone where nothing can be written."""
    try:
        _keep_private(HISTORY)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(HISTORY))


class Screen:
    """Draws a room, and hears what is typed."""

    def __init__(self, make_room: Callable[[Callable[[Text], None]], Room]) -> None:
        self._room = make_room(self.say)
        self._scroll = Scroll()
        self._may_leave = False
        self._begun: set[asyncio.Task[None]] = set()
        self._session: PromptSession[str] = PromptSession(
            message=lambda: ANSI(_drawn([*self._going_on()], end="") + "\x1b[1;36m› \x1b[0m"),
            bottom_toolbar=lambda: ANSI(self._status()),
            history=_history(),
            key_bindings=self._keys(),
            refresh_interval=_REFRESH,
            erase_when_done=True,
        )

    async def run(self) -> None:
        """Until somebody leaves."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGINT, self._interrupt)
        with patch_stdout(raw=True):
            self.say(Text(f"conversation {self._room.conversation.id} · /help · Ctrl-D leaves", "dim"))
            if isinstance(self._session.history, InMemoryHistory):
                self.say(Text(f"what is typed here is not kept: {HISTORY} cannot be written", "yellow"))
            watching = asyncio.create_task(self._watch())
            try:
                await self._hear(watching)
                await self._finish()
            finally:
                for task in (watching, *self._begun):
                    task.cancel()
                await asyncio.gather(watching, *self._begun, return_exceptions=True)
            if self._room.is_busy:
                self.say(Text(f"the run goes on; tarry chat {self._room.conversation.id} comes back to it", "dim"))

    def say(self, line: Text) -> None:
        """Let a line scroll by above what stays.

        Not by the library's own way, which gives keys back to the terminal meanwhile: a Ctrl-D would be lost.
        """
        app, text = self._session.app, _drawn([line]).replace("\n", "\r\n")
        if app.is_running:
            app.renderer.erase()
        self._session.output.write_raw(text)
        self._session.output.flush()
        if app.is_running:
            app.renderer.reset()
            app.renderer.request_absolute_cursor_position()
            app.invalidate()

    async def _hear(self, watching: asyncio.Task[None]) -> None:
        leaving = asyncio.create_task(self._room.left.wait())
        try:
            while (line := await self._typed({watching, leaving})) is not None:
                self._may_leave = False
                if line.strip():
                    self._begin(self._room.take(line.strip()))
        finally:
            leaving.cancel()

    async def _typed(self, ends: set[asyncio.Task[Any]]) -> str | None:
        """The next line; None when there is none any more, or one of `ends` is over."""
        typing = asyncio.create_task(self._session.prompt_async(handle_sigint=False))
        try:
            await asyncio.wait({typing, *ends}, return_when=asyncio.FIRST_COMPLETED)
            for end in ends:
                if end.done():
                    end.result()
                    return None
            return typing.result()
        except EOFError:
            return None
        finally:
            typing.cancel()
            await asyncio.gather(typing, return_exceptions=True)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)

    async def _finish(self) -> None:
        """Let what was typed be sent: who leaves has said it."""
        if not self._begun:
            return
        self.say(Text("what was typed last is being sent …", "dim"))
        _, unsent = await asyncio.wait(self._begun, timeout=_LEAVE_PATIENCE)
        if unsent:
            self.say(Text("what was typed last may not have been sent: look at the transcript", "yellow"))

    async def _watch(self) -> None:
        """Draw each change; a conversation that is new is watched from its first input on."""
        while True:
            try:
                async with contextlib.aclosing(self._room.conversation.watch()) as changes:
                    async for change in changes:
                        self._room.view = change.view
                        for line in self._scroll.take(change.view):
                            self.say(line)
                        self._session.app.invalidate()
                self.say(Text("the conversation has ended", "yellow"))
                return
            except NoSuchConversation:
                await self._room.began.wait()
                await asyncio.sleep(_RETRY_PAUSE / 10)
            except RPCError as error:
                self.say(Text(f"the watch broke off ({error.status.name.lower()}), and is begun again", "dim"))
                await asyncio.sleep(_RETRY_PAUSE)

    def _going_on(self) -> Iterable[Text]:
        """What has no end yet, newest last; nothing that a terminal of a few lines has no room for."""
        view = self._room.view
        if view is None:
            return
        if tail := render.plain(self._scroll.tail(view)).strip("\n"):
            yield Text(tail[-_TAIL_LINES * 80 :])
        now = datetime.now(UTC)
        for call in [call for call in view.run.calls if call.status != "done"][:_CALLS_SHOWN] if view.run else ():
            yield running(call, now)
        for item in view.inbox[:_QUEUED_SHOWN]:
            yield Text(f"  queued ({item.mode.replace('_', ' ')}): {render.cut(render.plain(item.text), 80)}", "dim")
        if (question := self._room.question) is not None:
            yield from asked(question)

    def _status(self) -> str:
        what = self._room.doing
        keys = "Ctrl-C stops" if self._room.is_busy else "Ctrl-D leaves"
        return f" {what or 'ready'} · {keys} · /help "

    def _keys(self) -> KeyBindings:
        keys = KeyBindings()

        @keys.add("c-c")
        def _(_: KeyPressEvent) -> None:
            self._interrupt()

        return keys

    def _interrupt(self) -> None:
        """The first Ctrl-C clears the line, or stops the run; the second one leaves."""
        if self._session.default_buffer.text:
            self._session.default_buffer.reset()
        elif self._may_leave:
            self._room.left.set()
        else:
            self._may_leave = True
            if self._room.is_busy:
                self._begin(self._room.stop())
            else:
                self.say(Text("Ctrl-C again leaves", "dim"))


def _drawn(lines: list[Text], end: str = "\n") -> str:
    """Lines as a terminal of this width shows them."""
    width = shutil.get_terminal_size().columns
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, color_system="standard", width=width, highlight=False)
    for line in lines:
        console.print(line, soft_wrap=True)
    return text.getvalue()
