"""A document as a program reads and edits it, by hand and not in a run."""

from __future__ import annotations

import uuid
from typing import Generic, TypeVar

from tarry.client.commits import commit_with
from tarry.client.documents import DocumentReader, inline
from tarry.core.commits import CommitInput
from tarry.core.protocol import digest
from tarry.documents import Change, Document, Edit, Found

T = TypeVar("T")


class ConversationDocument(Generic[T]):
    """A handle on a document; make it with `Conversation.document`. All of it needs a worker."""

    def __init__(self, reader: DocumentReader, conversation_id: str, document: Document[T]) -> None:
        self._reader = reader
        self._conversation_id = conversation_id
        self._document = document

    async def get(self) -> T:
        """What it is; as it was declared while nobody has edited it.

        Raises:
            Unreadable: it was written in a newer version than this declaration, or does not fit it.
            NoSuchConversation: nothing with that id; a conversation begins with its first input.
            ServerUnavailable: no server answers, or no worker.
        """
        return (await self.find()).value

    async def find(self) -> Found[T]:
        """What it is, with its revision; raises as `get`."""
        return self._document.found(await self._reader.find(self._conversation_id, self._document))

    async def snapshot_as_of(self, entry: int) -> T:
        """What it was at the end of the commit of entry number `entry`, counted from 0; raises as `get`.

        Raises:
            ValueError: it cannot be rewound.
        """
        return self._document.found(await self._reader.find_as_of(self._conversation_id, self._document, entry)).value

    async def edit(self, change: Change[T], *, key: str | None = None) -> bool:
        """Edit it, durably when it returns; False when `key` was used before: then nothing happens.

        `change` is called again when somebody else was faster, ten times at most, so it does nothing but compute.

        Raises:
            DocumentConflict: it changed ten times.
            Unreadable: what is stored, or what the change made of it, does not fit the schema.
            ValueError: it is too large.
            InboxFull: the documents of the conversation are too large together.
            NoSuchConversation, ServerUnavailable: nobody took it.
        """
        return await self._commit(self._document.edit(change), key)

    async def put(self, value: T, *, revision: int, key: str | None = None) -> bool:
        """Make it `value`, if it still has the revision that `find` gave; raises as `edit`."""
        return await self._commit(self._document.put(value, revision=revision), key)

    async def retire(self, *, key: str | None = None) -> bool:
        """End it: it is as it was declared again. What can be rewound keeps its past. Raises as `edit`."""
        return await self._commit(self._document.retire(), key)

    async def _commit(self, edit: Edit[T], key: str | None) -> bool:
        scope = f"client#{key or uuid.uuid4().hex}"
        commit = CommitInput(key=scope if len(scope) <= 300 else digest(scope), is_remembered=key is not None)
        return await commit_with(self._reader, self._conversation_id, commit, [edit], inline)
