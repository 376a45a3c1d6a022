"""Documents in running code: read on the worker's loop, edited by code in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from activities.runner import ToolThread
from tarry.app import Registry
from tarry.client.documents import DocumentReader
from tarry.documents import Document, Found, Stored

T = TypeVar("T")
R = TypeVar("R")

EDIT_SECONDS = 10.0
"""How long one edit may compute."""


class AtHome(Protocol):
    """Starts work on the worker's loop."""

    def __call__(self, start: Callable[[], asyncio.Task[R]], /) -> Future[R]:
        """What becomes of it."""
        ...


class TaskDocument(Generic[T]):
    """A document as the `api` of a task gives it."""

    def __init__(self, reader: DocumentReader, conversation_id: str, document: Document[T], at_home: AtHome) -> None:
        self._reader = reader
        self._conversation_id = conversation_id
        self._document = document
        self._at_home = at_home

    async def get(self) -> T:
        """What it is."""
        return (await self.find()).value

    def get_sync(self) -> T:
        """`get` for sync code: blocks its thread."""
        return self.find_sync().value

    async def find(self) -> Found[T]:
        """What it is, with its revision."""
        return self._document.found(await asyncio.wrap_future(self._find()))

    def find_sync(self) -> Found[T]:
        """`find` for sync code: blocks its thread."""
        return self._document.found(self._find().result())

    async def as_of(self, entry: int) -> T:
        """What it was."""
        return self._document.found(await asyncio.wrap_future(self._as_of(entry))).value

    def as_of_sync(self, entry: int) -> T:
        """`as_of` for sync code: blocks its thread."""
        return self._document.found(self._as_of(entry).result()).value

    def _find(self) -> Future[Stored | None]:
        return self._start(partial(self._reader.find, self._conversation_id, self._document))

    def _as_of(self, entry: int) -> Future[Stored | None]:
        return self._start(partial(self._reader.find_as_of, self._conversation_id, self._document, entry))

    def _start(self, work: Callable[[], Coroutine[Any, Any, R]]) -> Future[R]:
        return self._at_home(lambda: asyncio.create_task(work()))


class DeclaredDocuments:
    """The documents that the extensions of a worker declare, as its code reads them."""

    def __init__(self, registry: Registry, reader: DocumentReader) -> None:
        self._registry = registry
        self._reader = reader

    def check(self, conversation_id: str, document: Document[Any]) -> None:
        """Whether there is one: two that share a name would read each other's values.

        Raises:
            ValueError: no extension declares it; or the code belongs to no conversation.
        """
        if not conversation_id:
            raise ValueError("this task belongs to no conversation: there is nothing to read there or to commit to")
        if document.name not in self._registry.documents:
            raise ValueError(f"no document is named {document.name!r}; declare it in the extension's documents")

    def of(self, conversation_id: str, document: Document[T], at_home: AtHome) -> TaskDocument[T]:
        """A document of a conversation, or of its session; raises as `check`."""
        self.check(conversation_id, document)
        return TaskDocument(self._reader, conversation_id, document, at_home)


class Home:
    """A worker's loop, for code in other threads."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()

    def start(self, start: Callable[[], asyncio.Task[R]]) -> Future[R]:
        """Start work there."""

        async def started() -> R:
            return await start()

        return asyncio.run_coroutine_threadsafe(started(), self._loop)


async def run_edit(code: Callable[[], T], /) -> T:
    """What the code gives; it can block nothing of the worker's.

    Raises:
        TimeoutError: it computes for over ten seconds.
    """
    thread = ToolThread(code, threading.Event(), "tarry-edit")
    ended = await thread.wait(EDIT_SECONDS)
    if ended is None:
        raise TimeoutError(f"an edit of a document took over {EDIT_SECONDS:g} s; compute before the commit")
    if ended.error is not None:
        raise ended.error
    value: T = ended.value
    return value
