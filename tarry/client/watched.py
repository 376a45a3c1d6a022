"""The part of a conversation's handle that looks: the view, what changes in it, and what happens."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from temporalio.client import Client

from tarry.client.watch import Change, look_once, watch
from tarry.core.live import LiveView
from tarry.core.live_events import Event
from tarry.entries import EntryReader


class Watched:
    """Something to be watched by its id."""

    def __init__(self, client: Client, reader: EntryReader, conversation_id: str) -> None:
        self.id = conversation_id
        self._client = client
        self._reader = reader

    async def view(self) -> LiveView:
        """How the conversation stands, with its newest entries and all that goes on (spec §7.9). Needs a worker.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers, or no worker.
        """
        return await look_once(self._client, self._reader, self.id)

    async def watch(self) -> AsyncGenerator[Change]:
        """The view, then each change as it happens, until the conversation ends (spec §7.9).

        Any number may watch: none of it leaves an event in a history. What is away, a worker or the server, is told as
        the view's `contact` and waited for. Who is more than a hundred changes behind gets the view in their place, so
        this is no log. Close it (`contextlib.aclosing`), or cancel the task, to stop.

        Raises:
            NoSuchConversation: nothing with that id.
        """
        async with contextlib.aclosing(watch(self._client, self._reader, self.id)) as changes:
            async for change in changes:
                yield change

    async def events(self) -> AsyncGenerator[Event]:
        """What `watch` tells, one event after the other; a `snapshot` is the first.

        Raises:
            NoSuchConversation: nothing with that id.
        """
        async with contextlib.aclosing(self.watch()) as changes:
            async for change in changes:
                for event in change.events:
                    yield event
