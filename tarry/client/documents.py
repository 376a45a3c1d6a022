"""Documents read and edited from outside their workflow: what is stored becomes typed values here, and back.

Workflows keep raw values and references; schemas, migrations and edits are applied by whoever reads or writes
(spec §7.7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from temporalio.client import Client, WorkflowExecutionDescription
from temporalio.service import RPCError, RPCStatusCode

from tarry.asking import QUERY_TIMEOUT, ask
from tarry.client.errors import DocumentConflict, NoSuchConversation, reaching_server
from tarry.core.documents import (
    CROWDED_BYTES,
    DOCUMENTS,
    INLINE_BYTES,
    SMALL_BYTES,
    Body,
    DocumentEdit,
    DocumentsQuery,
    DocumentsView,
    Fold,
    Folded,
    History,
    Kept,
    Rules,
    Scope,
    State,
    state_as_of,
)
from tarry.core.messages import Frozen
from tarry.core.paths import root_of
from tarry.core.protocol import CONVERSATION, OWNER_MEMO, VIEW, digest
from tarry.core.text import canonical_json
from tarry.core.views import GenerationView
from tarry.documents import Document, Edit, Stored, edited
from tarry.store import BlobStore

T = TypeVar("T")


class EditRunner(Protocol):
    """Runs the code of an edit where it can harm nobody."""

    async def __call__(self, code: Callable[[], T], /) -> T:
        """What the code gives; what it raises passes."""
        ...


async def inline(code: Callable[[], T], /) -> T:
    """An edit in a program of its own runs where it stands."""
    return code()


class StoredDocument(Frozen):
    """A document as it is stored, for whoever does not know its declaration."""

    id: str
    scope: Scope
    history: History
    revision: int
    version: int
    value: Any

    @classmethod
    def of(cls, id: str, rules: Rules, stored: Stored) -> StoredDocument:
        """What is kept under an id."""
        return cls(
            id=id,
            scope=rules.scope,
            history=rules.history,
            revision=stored.revision,
            version=stored.version,
            value=stored.data,
        )


class DocumentReader:
    """Reads documents of any conversation."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.blobs = BlobStore(client.data_converter)
        self._roots: dict[str, str] = {}

    async def find(self, conversation_id: str, document: Document[Any]) -> Stored | None:
        """A document as it is; None: as it was declared.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers, or no worker.
        """
        return await self.stored(await self._kept(conversation_id, document))

    async def find_as_of(self, conversation_id: str, document: Document[Any], entry: int) -> Stored | None:
        """A document as it was at the end of the commit of that entry; raises as `find`.

        Raises:
            ValueError: it cannot be rewound.
        """
        if document.rules.history != "rewindable":
            raise ValueError(f'document {document.name} cannot be rewound: declare it with history="rewindable"')
        return await self.stored(await self._kept(conversation_id, document), entry)

    async def _kept(self, conversation_id: str, document: Document[Any]) -> Kept | None:
        home = await self.root(conversation_id) if document.rules.scope == "session" else conversation_id
        return (await self.view(home, [document.id])).documents.kept.get(document.id)

    async def all(self, conversation_id: str, as_of: int | None = None) -> list[StoredDocument]:
        """All that a conversation reads, its session's among them, by id; those that can be rewound as of an entry."""
        kept = dict((await self.view(conversation_id)).documents.kept)
        if (root := await self.root(conversation_id)) != conversation_id:
            of_root = (await self.view(root)).documents.kept
            kept |= {id: one for id, one in of_root.items() if one.rules.scope == "session"}
        wanted = [(id, kept[id]) for id in sorted(kept) if as_of is None or kept[id].rules.history == "rewindable"]
        found = [(id, one.rules, await self.stored(one, as_of)) for id, one in wanted]
        return [StoredDocument.of(id, rules, stored) for id, rules, stored in found if stored is not None]

    async def stored(self, kept: Kept | None, as_of: int | None = None) -> Stored | None:
        """What is kept of a document, now or as of an entry; None: nothing, it was as it was declared."""
        if kept is None:
            return None
        state = await self._state(kept, as_of)
        if state is None or state.body is None:
            return None
        body = state.body
        data = await self.blobs.get(body.ref, object) if body.ref else body.value
        # Nobody has seen what a fork has folded: it is known there by the number of the fork.
        return Stored(data, body.version, kept.revision if as_of is None else state.revision)

    async def _state(self, kept: Kept, entry: int | None) -> State | None:
        """The state that counts, in what is carried or in what is folded."""
        if entry is None:
            if kept.states:
                return kept.states[-1]
            entry = kept.cut or 0
        state, ref, cut = kept.as_of(entry), kept.folded, kept.cut
        while state is None and ref:
            entry = entry if cut is None else min(entry, cut)
            page = await self.blobs.get(ref, Folded)
            state, ref, cut = state_as_of(page.states, entry), page.before, page.cut
        return state

    @reaching_server()
    async def view(self, conversation_id: str, ids: Iterable[str] | None = None, key: str = "") -> DocumentsView:
        """Documents as the workflow keeps them; raises as `find`."""
        query = DocumentsQuery(ids=None if ids is None else tuple(sorted(ids)), key=key)
        try:
            view: DocumentsView = await ask(self.client, conversation_id, DOCUMENTS, DocumentsView, query)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NoSuchConversation(f"there is no conversation {conversation_id}") from error
            raise
        return view

    @reaching_server()
    async def entries_of(self, generation_id: str | None) -> int:
        """How many entries there are up to the end of the open run; 0: there is none, or nobody knows yet."""
        if generation_id is None:
            return 0
        try:
            view: GenerationView = await ask(self.client, generation_id, VIEW, GenerationView)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return 0
            raise
        return view.end.index

    @reaching_server()
    async def root(self, conversation_id: str) -> str:
        """The conversation in which its session began: up over the tasks that own conversations.

        Raises:
            NoSuchConversation: nothing with that id.
            ServerUnavailable: no server answers.
        """
        if conversation_id not in self._roots:
            seen = {conversation_id}
            here = conversation_id
            while (owner := root_of(await self._owner(here))) and owner not in seen and await self._is_one(owner):
                here = owner
                seen.add(here)
            self._roots[conversation_id] = here
        return self._roots[conversation_id]

    async def _owner(self, conversation_id: str) -> str:
        return await (await self._described(conversation_id)).memo_value(OWNER_MEMO, "", type_hint=str)

    async def _is_one(self, owner: str) -> bool:
        """Whether it is a conversation: a task that a program has started is none, and what it owns is its own root."""
        return (await self._described(owner)).workflow_type == CONVERSATION

    async def _described(self, workflow_id: str) -> WorkflowExecutionDescription:
        try:
            return await self.client.get_workflow_handle(workflow_id).describe(rpc_timeout=QUERY_TIMEOUT)
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                raise NoSuchConversation(f"there is no conversation {workflow_id}") from error
            raise


def placeholders(edits: Sequence[Edit[Any]]) -> tuple[DocumentEdit, ...]:
    """What stands for edits that are not made yet; no conversation takes it."""
    return tuple(DocumentEdit(id=id, expected=-1, body=None, content=_content(own)) for id, own in _by_id(edits))


async def composed_edits(
    reader: DocumentReader, view: DocumentsView, edits: Sequence[Edit[Any]], run: EditRunner
) -> tuple[DocumentEdit, ...]:
    """The edits, made of what the documents are; those of one document one after the other.

    Raises:
        DocumentConflict: a document is not at the revision that an explicit value was made for.
        ValueError: a value does not fit, or is too large.
    """
    is_rewindable = any(edit.document.rules.history == "rewindable" for edit in edits)
    entry = await reader.entries_of(view.open_generation) if is_rewindable else 0
    return tuple([await _composed(reader, view, own, run, entry) for _, own in _by_id(edits)])


async def _composed(
    reader: DocumentReader, view: DocumentsView, edits: Sequence[Edit[Any]], run: EditRunner, entry: int
) -> DocumentEdit:
    document = edits[0].document
    kept = view.documents.kept.get(document.id)
    revision = 0 if kept is None or kept.is_retired else kept.revision
    for edit in edits:
        if edit.revision not in (None, revision):
            raise DocumentConflict(
                f"document {document.id} is at revision {revision}, not at {edit.revision}: read it again, then edit"
            )
    data = await run(partial(edited, edits, await reader.stored(kept)))
    body = None if data is None else await _body(reader, view, data, document.version)
    fold = None
    if kept is not None and kept.wants_folding(view.carried):
        folded = Folded(states=kept.states, before=kept.folded, cut=kept.cut)
        fold = Fold(ref=await reader.blobs.put(folded), upto=kept.revision)
    return DocumentEdit(
        id=document.id,
        rules=document.rules,
        expected=revision,
        body=body,
        entry=entry,
        fold=fold,
        content=_content(edits),
    )


async def _body(reader: DocumentReader, view: DocumentsView, data: Any, version: int) -> Body:
    """A value as a conversation keeps it: small ones, while there is room, as they are."""
    text = canonical_json(data)
    size = len(text.encode())
    body = Body(version=version, size=size, digest=digest(text))
    if size > INLINE_BYTES or (size > SMALL_BYTES and view.carried + size > CROWDED_BYTES):
        return body.model_copy(update={"ref": await reader.blobs.put(data)})
    return body.model_copy(update={"value": data})


def _by_id(edits: Sequence[Edit[Any]]) -> list[tuple[str, list[Edit[Any]]]]:
    ids = dict.fromkeys(edit.document.id for edit in edits)
    return [(id, [edit for edit in edits if edit.document.id == id]) for id in ids]


def _content(edits: Sequence[Edit[Any]]) -> str:
    return " ".join(edit.content for edit in edits if edit.content)
