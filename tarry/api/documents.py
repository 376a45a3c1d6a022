"""Documents as running code reads them: tools, tasks and hooks. Tools and tasks edit them in a commit."""

from __future__ import annotations

from typing import Protocol, TypeVar

from tarry.documents import Document, Found

T = TypeVar("T")


class TaskDocument(Protocol[T]):
    """A document of a task's conversation, or of its session. Every value is a copy of one's own."""

    async def get(self) -> T:
        """What it is; as it was declared while nobody has edited it.

        Raises:
            Unreadable: it was written in a newer version than this declaration, or does not fit it.
            NoSuchConversation, ServerUnavailable: nobody answers.
            StaleRun: this run of a tool or task was given up.
        """
        ...

    def get_sync(self) -> T:
        """`get` for sync code."""
        ...

    async def find(self) -> Found[T]:
        """What it is, with its revision: for `put`. Raises as `get`."""
        ...

    def find_sync(self) -> Found[T]:
        """`find` for sync code."""
        ...

    async def as_of(self, entry: int) -> T:
        """What it was at the end of the commit of entry number `entry`, counted from 0; raises as `get`.

        Raises:
            ValueError: it cannot be rewound.
        """
        ...

    def as_of_sync(self, entry: int) -> T:
        """`as_of` for sync code."""
        ...


class DocumentsApi(Protocol):
    """Documents."""

    def document(self, document: Document[T]) -> TaskDocument[T]:
        """A document of this task's conversation, or of its session, to be read (spec §7.7).

        Raises:
            ValueError: no extension of the worker declares it, or this task belongs to no conversation.
            StaleRun: this run was given up.
        """
        ...
