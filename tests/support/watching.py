"""Who watches a conversation in a test, and what there is to see."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from tarry.client import Conversation
from tarry.client.watch import Change
from tarry.core.live import LiveView
from tarry.core.live_events import Event, applied
from tests.support.waiting import PATIENCE


class Watch:
    """All changes of a conversation so far. Every one of them is checked: its events lead from view to view."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self._came = asyncio.Condition()
        self.changes: list[Change] = []

    @property
    def view(self) -> LiveView:
        """How it stands."""
        return self.changes[-1].view

    @property
    def events(self) -> list[Event]:
        """What happened so far."""
        return [event for change in self.changes for event in change.events]

    @property
    def types(self) -> list[str]:
        """The kinds of it."""
        return [event.type for event in self.events]

    async def shows(self, wanted: Callable[[LiveView], object]) -> LiveView:
        """The first view, of those that came and will come, that is as wanted."""
        async with asyncio.timeout(PATIENCE), self._came:
            seen = 0
            while True:
                for change in self.changes[seen:]:
                    if wanted(change.view):
                        return change.view
                seen = len(self.changes)
                await self._came.wait()

    async def run(self) -> None:
        """Watch until the end."""
        async for change in self._conversation.watch():
            if self.changes:
                heard = self.view
                for event in change.events:
                    heard = applied(heard, event)
                assert heard == change.view
            self.changes.append(change)
            async with self._came:
                self._came.notify_all()


@contextlib.asynccontextmanager
async def watching(conversation: Conversation) -> AsyncIterator[Watch]:
    """One more that watches, from its first view on."""
    watch = Watch(conversation)
    task = asyncio.create_task(watch.run())
    try:
        seen = asyncio.create_task(watch.shows(lambda _: True))
        await asyncio.wait({task, seen}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        await seen
        yield watch
        if task.done():
            await task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
