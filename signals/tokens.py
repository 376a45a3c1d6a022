"""Signals: typed, versioned values that the world delivers to a task, and the keys that name one wait each.

Pure. A token holds the schema; the state of a task holds raw values and versions, never schemas, so that
a deploy changes how a value is read and not what was stored (spec §1.4, §3.1).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, ValidationError

from signals.data import NotJson, clean, json_size, json_text

T = TypeVar("T")

MAX_VALUE_BYTES = 256 * 1024
"""Of one value, as compact JSON (spec §3.2)."""
MAX_KEY_BYTES = 8 * 1024
MAX_NAME = 200
MAX_REASON = 500
"""Characters in the reason of a refusal."""
RESERVED = "tarry."
"""Names that start with it are ours (spec §3.1)."""

Migrate = Callable[[Any, int], Any]
"""From a value of an older version to one of the current: `migrate(value, from_version)`. May change `value`."""


class Unreadable(ValueError):
    """A value that its token refuses. The text is for the sender: valid Unicode, at most `MAX_REASON` characters."""


@dataclass(frozen=True)
class SignalKey:
    """One wait for a signal: plain strings, compared exactly."""

    signal: str
    key: str

    @property
    def problem(self) -> str | None:
        """Why nothing could be delivered under this key, or None."""
        return _name_problem(self.signal) or key_problem(self.key)

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


class Signal(Generic[T]):
    """A token: name, version and schema of a signal (spec §3.1).

    Args:
        name: unique in an application; also the name of the Temporal Signal that delivers it.
        version: raise it when the schema changes so that older values do not fit.
        schema: a pydantic model or any type pydantic takes. Checked strictly, as JSON: `"true"` is not
            true and 1.5 is not 1. Unknown fields are refused, in nested models too. Once any model in it
            sets `extra` to allow or ignore, nested models go by their own settings; the outermost still
            refuses unless it is the one that says so.
        migrate: makes a value of an older version current.

    Raises:
        ValueError: the name is empty, too long, holds `/` or begins with `tarry.`; the version is below 1.
    """

    def __init__(
        self, name: str, version: int, schema: type[T], migrate: Migrate | None = None, *, built_in: bool = False
    ) -> None:
        if (problem := _name_problem(name)) is not None:
            raise ValueError(problem)
        if name.startswith(RESERVED) is not built_in:
            raise ValueError(f"signal name {name!r}: names that begin with {RESERVED!r} are reserved")
        if version < 1:
            raise ValueError(f"signal {name}: versions count from 1")
        self.name = name
        self.version = version
        self.migrate = migrate
        self._declared: type[T] = schema

    def key(self, key: str) -> SignalKey:
        """The key of one wait for this signal. A park says whether it can be waited for."""
        return SignalKey(self.name, key)

    def read(self, value: Any, version: int) -> T:
        """The typed value of what was stored, migrated from an older version; `value` stays as it is (spec §3.6).

        Raises:
            Unreadable: it is newer than this token, cannot be migrated, or does not fit the schema.
        """
        if not 1 <= version <= self.version:
            raise Unreadable(f"{self.name} version {version} is not known here; known are 1 to {self.version}")
        try:
            text = json_text(value)
            return self._validate(text if version == self.version else json_text(self._migrated(text, version)))
        except (Unreadable, KeyboardInterrupt):
            raise
        # Validators and migrations are application code and may raise anything at outside data.
        except BaseException as error:
            raise Unreadable(_said(error)) from None

    def dump(self, value: T) -> Any:
        """The JSON data of a value in the current version, as it is delivered.

        Raises:
            Unreadable: read again, it would not fit the schema.
        """
        try:
            data = self._adapter.dump_python(value, mode="json", by_alias=True, warnings=False)
        except Exception as error:
            raise Unreadable(_said(error)) from None
        self.read(data, self.version)
        return data

    def schema(self) -> dict[str, Any]:
        """The JSON Schema of a value."""
        return self._adapter.json_schema()

    def _validate(self, text: str) -> T:
        if self._is_open:
            return self._adapter.validate_json(text, strict=True)
        return self._adapter.validate_json(text, strict=True, extra="forbid")

    def _migrated(self, text: str, version: int) -> Any:
        if self.migrate is None:
            raise Unreadable(f"{self.name} has no migration from version {version} to {self.version}")
        # A copy: a migration may work in place, and what is stored must stay what was sent.
        return self.migrate(json.loads(text), version)

    # The schema is looked at when it is first used: it may name models that are declared further down.

    @cached_property
    def _is_open(self) -> bool:
        return _opens(TypeAdapter(self._declared).core_schema)

    @cached_property
    def _adapter(self) -> TypeAdapter[T]:
        return TypeAdapter(_closed(self._declared) if self._is_open else self._declared)


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


def _name_problem(name: object) -> str | None:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or "/" in name or not name.isprintable():
        return clean(f"signal name {name!r} must be 1 to {MAX_NAME} printable characters without '/'", MAX_REASON)
    return None


def _opens(schema: Any) -> bool:
    """Whether any model in a core schema takes unknown fields by its own word."""
    if isinstance(schema, Mapping):
        config = schema.get("config")
        if isinstance(config, Mapping) and config.get("extra_fields_behavior") in {"allow", "ignore"}:
            return True
        return any(_opens(part) for part in schema.values())
    return isinstance(schema, list | tuple) and any(map(_opens, schema))


def _closed(schema: Any) -> Any:
    """The model, refusing unknown fields unless it says otherwise itself. Its nested models are left as they are."""
    if not (isinstance(schema, type) and issubclass(schema, BaseModel)) or issubclass(schema, RootModel):
        return schema
    if schema.model_config.get("extra") is not None:
        return schema
    return type(schema.__name__, (schema,), {"model_config": ConfigDict(extra="forbid"), "__doc__": schema.__doc__})


def _said(error: BaseException) -> str:
    try:
        text = _problems(error) if isinstance(error, ValidationError) else f"{type(error).__name__}: {error}"
    except Exception:  # an error of the application that cannot even be printed
        text = type(error).__name__
    return clean(text, MAX_REASON)


def _problems(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    return "; ".join(f"{'.'.join(map(str, one['loc']))[:MAX_NAME] or 'value'}: {one['msg']}" for one in found)
