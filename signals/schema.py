"""Schemas with a version: how stored data becomes a typed value, strictly and whatever a deploy has changed since.

Pure. The schema stands in the application; what is stored are raw values and versions, so that a deploy changes how a
value is read and not what was stored (spec §1.4).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeVar

from pydantic import BaseModel, ConfigDict, RootModel, TypeAdapter, ValidationError

from signals.data import clean, json_text

T = TypeVar("T")

MAX_NAME = 200
MAX_REASON = 500
"""Characters in the reason of a refusal."""
RESERVED = "tarry."
"""Names that start with it are ours (spec §3.1)."""

Migrate = Callable[[Any, int], Any]
"""From a value of an older version to one of the current: `migrate(value, from_version)`. May change `value`."""


class Unreadable(ValueError):
    """A value that its schema refuses. The text is for the sender: valid Unicode, at most `MAX_REASON` characters."""


class Versioned(Generic[T]):
    """A name, a version and a schema: a signal's, or a document's.

    The schema is a pydantic model or any type pydantic takes. Checked strictly, as JSON: `"true"` is not true and 1.5
    is not 1. Unknown fields are refused, in nested models too. Once any model in it sets `extra` to allow or ignore,
    nested models go by their own settings; the outermost still refuses unless it is the one that says so.
    """

    kind: ClassVar[str]
    """What it is of, for messages."""

    def __init__(
        self, name: str, version: int, schema: type[T], migrate: Migrate | None, *, built_in: bool = False
    ) -> None:
        if (problem := name_problem(self.kind, name)) is not None:
            raise ValueError(problem)
        if name.startswith(RESERVED) is not built_in:
            raise ValueError(f"{self.kind} name {name!r}: names that begin with {RESERVED!r} are reserved")
        if version < 1:
            raise ValueError(f"{self.kind} {name}: versions count from 1")
        self.name = name
        self.version = version
        self.migrate = migrate
        self._declared: type[T] = schema

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


def name_problem(kind: str, name: object) -> str | None:
    """Why nothing can have that name, or None."""
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or "/" in name or not name.isprintable():
        return clean(f"{kind} name {name!r} must be 1 to {MAX_NAME} printable characters without '/'", MAX_REASON)
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
