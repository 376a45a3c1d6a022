"""A form made from the JSON Schema of a signal, and the value that a filled one gives (spec §23.4).

Pure. What a schema says in words that a form cannot ask in is asked as JSON; the signal's own token has the last word
on every value.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Literal

from signals.schema import Unreadable
from signals.tokens import Signal, value_problem

FieldKind = Literal["text", "long", "integer", "number", "boolean", "choice", "time", "date", "json"]

PREFIX = "value."
"""Names of fields begin with it; a value that is no object has the one field of that name alone."""
_PLAIN: dict[str, FieldKind] = {"string": "text", "integer": "integer", "number": "number", "boolean": "boolean"}
_FORMATS: dict[str, FieldKind] = {"date-time": "time", "date": "date"}
_LONG = 200
_DEPTH = 8


@dataclass(frozen=True)
class Field:
    """A part of a value. `text` is what stands in it, `problem` why that is not taken; `options`: JSON and label."""

    name: str
    label: str
    kind: FieldKind
    required: bool = True
    nullable: bool = False
    help: str = ""
    options: Sequence[tuple[str, str]] = ()
    text: str = ""
    problem: str = ""
    schema: str = ""

    @property
    def input(self) -> str:
        """Its name in the form."""
        return f"{PREFIX}{self.name}"

    def value(self, text: str) -> Any:
        """What a text in it means.

        Raises:
            ValueError: nothing. The text is for who wrote it.
        """
        text = text if self.kind in ("text", "long") else text.strip()
        match self.kind:
            case "text" | "long":
                return text.replace("\r\n", "\n")
            case "integer":
                return _integer(text)
            case "number":
                return _number(text)
            case "boolean":
                return _one_of(text, ("true", "false"))
            case "choice":
                return _one_of(text, [option for option, _ in self.options])
            case "time":
                return _time(text)
            case "date":
                return text
            case "json":
                return _json(text)


@dataclass(frozen=True)
class Form:
    """The fields of a value; `is_object`: they are its parts, else there is one and it is all of it."""

    fields: tuple[Field, ...]
    is_object: bool
    problem: str = ""


def form_of(token: Signal[Any] | None) -> Form:
    """An empty form; of a signal that is not known here one that takes JSON."""
    try:
        schema = token.schema() if token is not None else {}
    except Exception:  # of a type that has no JSON Schema
        schema = {}
    root, known = _resolved(schema, schema), schema
    parts = root.get("properties")
    if root.get("type") != "object" or not parts:
        return Form((_field("", {"title": "Answer", **root}, known, required=True),), is_object=False)
    required = set(root.get("required", ()))
    fields = tuple(_field(name, part, known, required=name in required) for name, part in parts.items())
    return Form(fields, is_object=True)


def filled(form: Form, sent: Mapping[str, str], token: Signal[Any] | None) -> tuple[Form, Any]:
    """The form as it was sent, and its value; with a problem at a field, or at the form, it has none that counts."""
    fields: list[Field] = []
    values: dict[str, Any] = {}
    for field in form.fields:
        text, problem = sent.get(field.input, ""), ""
        if not text.strip() and (not field.required or field.nullable or field.kind not in ("text", "long")):
            if field.required and field.nullable:
                values[field.name] = None
            elif field.required:
                problem = "This is needed."
            elif field.text and field.input in sent and (field.nullable or field.kind in ("text", "long")):
                values[field.name] = None if field.nullable else ""  # what stood there was taken away
        else:
            try:
                values[field.name] = field.value(text)
            except ValueError as error:
                problem = str(error)
        fields.append(replace(field, text=text, problem=problem))
    form = replace(form, fields=tuple(fields))
    value = values if form.is_object else values.get("")
    if any(field.problem for field in fields):
        return replace(form, problem="Some of it cannot be taken; look at the fields."), value
    return _judged(form, value, token), value


def _judged(form: Form, value: Any, token: Signal[Any] | None) -> Form:
    if token is None:
        return form
    try:
        token.read(value, token.version)
    except Unreadable as error:
        return _blamed(form, str(error))
    return form


def _blamed(form: Form, said: str) -> Form:
    """Each part of what a token says stands at the field that it names."""
    left, fields = [], {field.name: field for field in form.fields}
    for part in said.split("; "):
        place, _, problem = part.partition(": ")
        name = place.partition(".")[0]
        if not form.is_object or name not in fields:
            left.append(part)
            continue
        within = place.removeprefix(name).removeprefix(".")
        text = f"{within}: {problem}" if within else problem
        before = fields[name].problem
        fields[name] = replace(fields[name], problem=f"{before}; {text}" if before else text)
    if not form.is_object:
        only = replace(form.fields[0], problem=said.removeprefix("value: "))
        return Form((only,), is_object=False, problem="It cannot be taken as it is.")
    problem = "; ".join(left) or "Some of it cannot be taken; look at the fields."
    return Form(tuple(fields.values()), is_object=True, problem=problem)


def _field(name: str, schema: Mapping[str, Any], known: Mapping[str, Any], *, required: bool) -> Field:
    part, nullable = _without_null(_resolved(schema, known), known)
    label = str(schema.get("title") or part.get("title") or name.replace("_", " ").capitalize() or "Answer")
    kind, options = _kind(part)
    default = schema.get("default", part.get("default"))
    text = "" if default is None else _as_text(default, kind)
    shape = json.dumps(part, indent=2, ensure_ascii=False) if kind == "json" and part else ""
    told = str(schema.get("description") or part.get("description") or "")
    return Field(name, label, kind, required, nullable, told, options, text, schema=shape)


def _kind(part: Mapping[str, Any]) -> tuple[FieldKind, Sequence[tuple[str, str]]]:
    if (values := [part["const"]] if "const" in part else part.get("enum")) is not None:
        return "choice", [
            (json.dumps(value), value if isinstance(value, str) else json.dumps(value)) for value in values
        ]
    kind = _PLAIN.get(str(part.get("type")))
    if kind is None:
        return "json", ()
    if kind == "text":
        limit = part.get("maxLength")
        is_long = limit is None or limit > _LONG
        return _FORMATS.get(str(part.get("format")), "long" if is_long else "text"), ()
    return kind, ()


def _resolved(schema: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """A schema with what it refers to in its place."""
    found = dict(schema)
    for _ in range(_DEPTH):
        inner = found.get("allOf")
        place = found.pop("$ref", None)
        if place is None and isinstance(inner, list) and len(inner) == 1:
            found = {**found.pop("allOf")[0], **found}
        elif isinstance(place, str):
            target = known.get("$defs", {}).get(place.removeprefix("#/$defs/"), {})
            found = {**target, **found}
        else:
            return found
    return {}


def _without_null(part: dict[str, Any], known: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    options = part.get("anyOf")
    if not isinstance(options, list):
        return part, part.get("type") == "null"
    left = [option for option in options if option.get("type") != "null"]
    if len(left) == len(options) or len(left) != 1:
        return part, len(left) < len(options)
    return _resolved(left[0], known), True


def _as_text(value: Any, kind: FieldKind) -> str:
    return value if isinstance(value, str) and kind not in ("choice", "json") else json.dumps(value, ensure_ascii=False)


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ValueError("A whole number is needed, such as 3.") from None


def _number(text: str) -> float | int:
    try:
        found = float(text)
    except ValueError:
        raise ValueError("A number is needed, such as 2.5.") from None
    if not math.isfinite(found):
        raise ValueError("A number is needed, such as 2.5.")
    return int(text) if text.lstrip("+-").isdigit() else found


def _one_of(text: str, options: Sequence[str]) -> Any:
    if text not in options:
        raise ValueError("Choose one.")
    return json.loads(text)


def _time(text: str) -> str:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("A date and a time are needed, such as 2030-01-31T12:00.") from None
    # A browser's field knows no zone, and says so to who fills it in.
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).isoformat().replace("+00:00", "Z")


def _json(text: str) -> Any:
    try:
        value = json.loads(text)
        problem = value_problem(value)
    except json.JSONDecodeError as error:
        raise ValueError(f"This is no JSON: {error.msg} in line {error.lineno}, character {error.colno}.") from None
    except (ValueError, RecursionError):
        raise ValueError("This is no JSON.") from None
    if problem is not None:  # of `NaN`, of half a character, of too much
        raise ValueError(f"This cannot be sent: {problem}.")
    return value
