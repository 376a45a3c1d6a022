"""Watching a conversation: the view, then each change of it, for any number of listeners (spec §7.9).

The history's long poll says *when*, a query says *what*, heartbeat details what streams: none of it leaves an event.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from temporalio.client import Client
from tenacity import AsyncRetrying, retry_if_result, stop_after_delay, wait_fixed

from tarry.asking import PATIENCE, Attempts
from tarry.client.errors import ServerUnavailable
from tarry.client.listening import Listening
from tarry.client.looking import Looker
from tarry.core.live import LiveView
from tarry.core.live_changes import changes
from tarry.core.live_events import Event, Snapshot
from tarry.entries import EntryReader

MAX_PENDING = 100
"""Changes that wait for a slow listener; one more, and all of them become one view."""

STREAM_PAUSE = 0.2
"""Seconds between two looks at what streams, as often as workers publish; longer where many calls do."""
DESCRIBED_A_SECOND = 20
_GATHER_PAUSE = 0.1
"""Seconds between two looks at the least: several events become one."""
_FIRST_RETRY = 0.25
_LONGEST_RETRY = 5.0


@dataclass(frozen=True)
class Change:
    """How a conversation stands now, and what led there.

    Attributes:
        view: everything, as it is now.
        events: what happened since the change before, in order; `tarry.core.live_events.applied` repeats it.
            A snapshot alone: the first change, or a listener was too slow for each one.
    """

    view: LiveView
    events: tuple[Event, ...]

    @property
    def is_whole(self) -> bool:
        """Whether the events tell nothing of what happened, only how it stands."""
        return any(isinstance(event, Snapshot) for event in self.events)


def whole(view: LiveView) -> Change:
    """A change that depends on none before it."""
    return Change(view, (Snapshot(view=view),))


class Listener:
    """An endless iterator over the changes; it ends when the conversation, or the watcher, does."""

    def __init__(self) -> None:
        self._pending: deque[Change] = deque()
        self._came = asyncio.Event()
        self._error: BaseException | None = None
        self._is_over = False

    def put(self, change: Change) -> None:
        """Never waits: a listener that has 100 changes before it gets the view in their place."""
        if len(self._pending) >= MAX_PENDING:
            self._pending.clear()
            change = whole(change.view)
        self._pending.append(change)
        self._came.set()

    def end(self, error: BaseException | None = None) -> None:
        """Nothing comes any more."""
        self._is_over, self._error = True, error
        self._came.set()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        while not self._pending:
            if self._is_over:
                raise self._error or StopAsyncIteration
            self._came.clear()
            await self._came.wait()
        return self._pending.popleft()


class Watcher:
    """Watches one conversation while it is entered, once for all its listeners."""

    def __init__(self, client: Client, reader: EntryReader, conversation_id: str) -> None:
        self._looker = Looker(client, reader, conversation_id)
        self._listening = Listening(client, conversation_id)
        self._id = conversation_id
        self._listeners: set[Listener] = set()
        self._view: LiveView | None = None
        self._retry = _FIRST_RETRY
        self._task: asyncio.Task[None] | None = None
        self._is_stopped = False

    async def __aenter__(self) -> Self:
        """Look for the first time.

        Raises:
            NoSuchConversation: nothing with that id.
        """
        self._view = await self._looker.look({self._id})
        if not self._is_stopped:
            self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def stop(self) -> None:
        """Watch no more; listeners end."""
        self._is_stopped = True
        if self._task is not None:
            self._task.cancel()

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return self._is_stopped or (self._task is not None and self._task.done())

    @property
    def view(self) -> LiveView:
        """How the conversation stood at the last look."""
        assert self._view is not None, "enter the watcher first"
        return self._view

    @contextlib.contextmanager
    def listener(self) -> Iterator[Listener]:
        """A listener, whose first change is the view as it is."""
        made = Listener()
        made.put(whole(self.view))
        if self.is_over:
            made.end()
        self._listeners.add(made)
        try:
            yield made
        finally:
            self._listeners.discard(made)

    async def _watch(self) -> None:
        error: Exception | None = None
        try:
            while self._id not in self._listening.over:
                self._listening.follow(self._looker.listens_to)
                await self._rest()
                self._publish(await self._looker.look(self._listening.take()))
        except Exception as problem:
            error = problem
        finally:
            await self._listening.close()
            for listener in self._listeners:
                listener.end(error)

    async def _rest(self) -> None:
        """Until it is worth while to look again: for ever when nothing streams and everybody answers."""
        pauses = [] if self._looker.next_look is None else [self._looker.next_look]
        if streaming := len(self._looker.streams):
            pauses.append(max(STREAM_PAUSE, streaming / DESCRIBED_A_SECOND))
        if self._looker.contact == "up":
            self._retry = _FIRST_RETRY
        else:
            pauses.append(self._retry)
            self._retry = min(self._retry * 2, _LONGEST_RETRY)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(min(pauses, default=None)):
                await asyncio.sleep(_GATHER_PAUSE)
                await self._listening.told.wait()

    def _publish(self, view: LiveView) -> None:
        events = changes(self.view, view)
        if events:
            self._view = view
            for listener in self._listeners:
                listener.put(Change(view, events))


async def watch(client: Client, reader: EntryReader, conversation_id: str) -> AsyncGenerator[Change]:
    """The view, then each change."""
    async with Watcher(client, reader, conversation_id) as watcher:
        with watcher.listener() as listener:
            async for change in listener:
                yield change


async def look_once(client: Client, reader: EntryReader, conversation_id: str) -> LiveView:
    """The view, when a worker says how the conversation stands.

    Raises:
        NoSuchConversation: nothing with that id.
        ServerUnavailable: no server answers, or no worker.
    """
    looker, attempts = Looker(client, reader, conversation_id), Attempts()

    async def look() -> LiveView:
        looker.timeout = attempts.timeout
        return await looker.look({conversation_id})

    retrying = AsyncRetrying(
        retry=retry_if_result(lambda view: view.contact != "up"),
        stop=stop_after_delay(PATIENCE),
        wait=wait_fixed(_FIRST_RETRY),
        retry_error_callback=lambda state: state.outcome and state.outcome.result(),
    )
    view: LiveView = await retrying(look)
    if view.contact != "up":
        who = "worker" if view.contact == "no_worker" else "Temporal server"
        raise ServerUnavailable(f"no {who} answers: check that one runs, then try again")
    return view
