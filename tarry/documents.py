"""Authoring documents: typed values of an application that belong to a conversation, edited by tools and by people.

A document is read and edited through its declaration. What is stored is plain JSON with the version it was written in,
so that a deploy changes how it is read and not what was stored (spec §7.7).
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from signals.data import json_size
from signals.schema import Migrate, Unreadable, Versioned
from tarry.core.documents import MAX_DOCUMENT_BYTES, ForkPolicy, History, Rules, Scope
from tarry.core.protocol import digest
from tarry.core.text import canonical_json

T = TypeVar("T")

MAX_KEY_BYTES = 200

Change = Callable[[T], T | None]
"""From what a document is to what it shall be: a new value, or None when it has changed the one it was given."""


class Document(Versioned[T]):
    """A kind of document, or, by `key`, one of its family (spec §7.7).

    Args:
        name: unique in an application, and what stored values are known by: never change it.
        version: raise it when the schema changes so that older values do not fit.
        schema: a pydantic model or any type pydantic takes; checked strictly, as for signals.
        scope: `conversation`: each has its own. `session`: one for a root conversation and all that it owns.
        history: `rewindable`: it can be read as it was at an entry of the transcript. `latest`: only as it is.
        fork: what a fork begins with: the state at its entry (`as_of`, the default of what can be rewound), the
            `current` one (the default of what cannot), or the `initial` one.
        initial: what it is before anybody has edited it; by default what `schema()` gives.
        migrate: makes a value of an older version current. A stored value is migrated when it is read, and stored in
            the current version by the next edit.

    Raises:
        ValueError: the name is empty, too long, holds `/` or begins with `tarry.`; the version is below 1; `as_of`
            needs a rewindable history.
    """

    kind: ClassVar[str] = "document"

    def __init__(
        self,
        name: str,
        version: int,
        schema: type[T],
        *,
        scope: Scope = "conversation",
        history: History = "latest",
        fork: ForkPolicy | None = None,
        initial: T | None = None,
        migrate: Migrate | None = None,
    ) -> None:
        super().__init__(name, version, schema, migrate)
        if fork == "as_of" and history != "rewindable":
            raise ValueError(f'document {name}: fork="as_of" needs history="rewindable"')
        self.rules = Rules(
            scope=scope, history=history, fork=fork or ("as_of" if history == "rewindable" else "current")
        )
        self.id = name
        self._initial = initial

    def key(self, key: str) -> Document[T]:
        """One of the family, by its key.

        Raises:
            ValueError: the key is empty, has over 200 bytes or holds control characters.
        """
        if not 0 < len(key.encode()) <= MAX_KEY_BYTES or not key.isprintable():
            raise ValueError(f"document {self.name}: a key has 1 to {MAX_KEY_BYTES} bytes and no control characters")
        one = copy.copy(self)
        one.id = f"{self.name}/{key}"
        return one

    @property
    def initial(self) -> T:
        """What it is before anybody has edited it, a new one each time.

        Raises:
            ValueError: the declaration gives none, and the schema alone makes none.
        """
        value = self._initial
        try:
            return self.read(self.dump(self._declared() if value is None else value), self.version)
        except (TypeError, ValueError) as error:
            raise ValueError(
                f"document {self.name} has no initial value; declare it with initial=… ({error})"
            ) from None

    def found(self, stored: Stored | None) -> Found[T]:
        """What is stored, as typed value; None is the initial one. Raises as `read`."""
        if stored is None:
            return Found(self.initial, 0)
        return Found(self.read(stored.data, stored.version), stored.revision)

    def stored(self, value: T) -> Any:
        """The value as it is stored.

        Raises:
            Unreadable: it does not fit the schema.
            ValueError: it has over 256 KiB as JSON.
        """
        data = self.dump(value)
        if (size := json_size(data)) > MAX_DOCUMENT_BYTES:
            raise ValueError(f"document {self.id} would have {size} bytes; {MAX_DOCUMENT_BYTES} are allowed")
        return data

    def read(self, value: Any, version: int) -> T:
        """The typed value of what was stored, migrated from an older version.

        Raises:
            Unreadable: it was written in a newer version, cannot be migrated, or does not fit the schema.
        """
        if version > self.version:
            raise Unreadable(
                f"document {self.id} was written in version {version}, by a newer deploy; this one knows {self.version}"
            )
        return super().read(value, version)

    def edit(self, change: Change[T]) -> Edit[T]:
        """An edit for a commit: `change` is given what the document is then, and may be called more than once.

        It is called again when somebody else has edited the document meanwhile, so it does nothing but compute.
        """
        return Edit(self, change)

    def put(self, value: T, *, revision: int) -> Edit[T]:
        """An edit for a commit: to `value`, if the document still has the revision that was read; 0 if it is new.

        Raises:
            Unreadable: the value does not fit the schema.
            ValueError: it has over 256 KiB as JSON.
        """
        return Edit(self, lambda _: value, revision, digest(canonical_json(self.stored(value))))

    def retire(self) -> Edit[T]:
        """An edit for a commit that ends the document: it is `initial` again, and one made later is another one."""
        return Edit(self, None, content="retired")


@dataclass(frozen=True)
class Edit(Generic[T]):
    """What a commit does to a document; make it by `edit`, `put` or `retire` of that document."""

    document: Document[T]
    change: Change[T] | None
    revision: int | None = None
    content: str = ""

    def applied(self, draft: T) -> T | None:
        """What it makes of a draft, which it may change; None: it retires the document."""
        if self.change is None:
            return None
        changed = self.change(draft)
        return draft if changed is None else changed


@dataclass(frozen=True)
class Stored:
    """A document as it is kept: JSON data and the version it was written in."""

    data: Any
    version: int
    revision: int


@dataclass(frozen=True)
class Found(Generic[T]):
    """A document as it is: its value, and the revision to which `put` refers. 0: it is `initial`."""

    value: T
    revision: int


def edited(edits: Sequence[Edit[T]], stored: Stored | None) -> Any:
    """The data that edits of one document leave, one after the other; None: they retire it.

    Raises:
        Unreadable: what is stored, or what an edit makes of it, does not fit the schema.
        ValueError: it is too large.
    """
    document = edits[0].document
    value: T | None = document.found(stored).value
    for edit in edits:
        value = edit.applied(document.initial if value is None else value)
    return None if value is None else document.stored(value)
