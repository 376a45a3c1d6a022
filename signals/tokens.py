"""Signals: typed, versioned values that the world delivers to a task, and the keys that name one wait each.

Pure. A token holds the schema; the state of a task holds raw values and versions, never schemas, so that
a deploy changes how a value is read and not what was stored (spec §1.4, §3.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

from signals.data import NotJson, clean, json_size
from signals.schema import MAX_NAME, MAX_REASON, Migrate, Unreadable, Versioned, name_problem

T = TypeVar("T")

MAX_VALUE_BYTES = 256 * 1024
"""Of one value, as compact JSON (spec §3.2)."""
MAX_KEY_BYTES = 8 * 1024


@dataclass(frozen=True)
class SignalKey:
    """One wait for a signal: plain strings, compared exactly."""

    signal: str
    key: str

    @property
    def problem(self) -> str | None:
        """Why nothing could be delivered under this key, or None."""
        return name_problem("signal", self.signal) or key_problem(self.key)

    def __str__(self) -> str:
        return f"{self.signal}/{self.key}"


def key_problem(key: object) -> str | None:
    """Why `key` names no wait, or None when it does. Any text of 1 byte to 8 KiB does."""
    if not isinstance(key, str):
        return f"a key is a string, not {type(key).__name__}"
    try:
        size = len(key.encode())
    except UnicodeEncodeError:
        return "a key must be valid Unicode"
    if not 0 < size <= MAX_KEY_BYTES:
        return f"a key has 1 to {MAX_KEY_BYTES} bytes, this one has {size}"
    return None


class Signal(Versioned[T]):
    """A token: name, version and schema of a signal (spec §3.1).

    Args:
        name: unique in an application; also the name of the Temporal Signal that delivers it.
        version: raise it when the schema changes so that older values do not fit.
        schema: a pydantic model or any type pydantic takes. Checked strictly, as JSON: `"true"` is not
            true and 1.5 is not 1. Unknown fields are refused, in nested models too. Once any model in it
            sets `extra` to allow or ignore, nested models go by their own settings; the outermost still
            refuses unless it is the one that says so.
        migrate: makes a value of an older version current.
        for_people: only people answer it. No task may send it, and no webhook or callback URL brings it (spec §23.6).

    Raises:
        ValueError: the name is empty, too long, holds `/` or begins with `tarry.`; the version is below 1.
    """

    kind: ClassVar[str] = "signal"

    def __init__(
        self,
        name: str,
        version: int,
        schema: type[T],
        migrate: Migrate | None = None,
        *,
        built_in: bool = False,
        for_people: bool = False,
    ) -> None:
        super().__init__(name, version, schema, migrate, built_in=built_in)
        self.for_people = for_people

    def key(self, key: str) -> SignalKey:
        """The key of one wait for this signal. A park says whether it can be waited for."""
        return SignalKey(self.name, key)


def judge(tokens: Mapping[str, Signal[Any]], signal: str, value: Any, version: int | None) -> str | None:
    """Why a value is `invalid`, or None (spec §3.2). An omitted version means the current one. Never raises."""
    token = tokens.get(signal)
    if token is None:
        return clean(f"no signal is named {signal[:MAX_NAME]!r}", MAX_REASON)
    if (problem := value_problem(value)) is not None:
        return problem
    try:
        token.read(value, token.version if version is None else version)
    except Unreadable as error:
        return str(error)
    return None


def value_problem(value: Any) -> str | None:
    """Why no signal could carry `value`, or None: it is plain JSON data of at most 256 KiB (spec §3.2)."""
    try:
        size = json_size(value)
    except NotJson as error:
        return f"the value is not JSON data: {clean(str(error), MAX_NAME)}"
    if size > MAX_VALUE_BYTES:
        return f"the value has {size} bytes, {MAX_VALUE_BYTES} are allowed; send a reference instead"
    return None
