"""Tool calls as a model writes them: ids that pair, and arguments that are a JSON object and fit the tool.

Pure. Nothing is repaired by guessing: what cannot be read is answered with what was expected, so that
the model can send it again (spec §6.4).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from tarry.core.messages import ToolCallRequest
from tarry.core.text import bound_text, clean_json, clean_text

MAX_ERROR_BYTES = 2 * 1024
MAX_ERROR_FIELDS = 20
EXCERPT = 80
UNREADABLE = "unreadable_arguments"
"""The one key of the object that stands for arguments which are none, when they go back to a model."""

M = TypeVar("M", bound=BaseModel)


class BadArguments(ValueError):
    """Arguments that no tool can be run with. `text` tells the model why, in at most 2 KiB."""

    def __init__(self, text: str) -> None:
        self.text = bound_text(text, max_bytes=MAX_ERROR_BYTES).text
        super().__init__(self.text)


def parse_arguments(raw: str) -> dict[str, Any]:
    """Read the raw arguments of a call as clean JSON data. Nothing, blanks and `null` mean `{}`.

    Raises:
        BadArguments: not JSON, not an object, nested too deeply, or NaN and the like.
    """
    value = _load(clean_text(raw)) if raw.strip() else None
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadArguments(f'expected a JSON object such as {{"name": "value"}}, not {_kind(value)}')
    try:
        cleaned: dict[str, Any] = clean_json(value)
    except TypeError as error:
        raise BadArguments(str(error)) from None
    return cleaned


def sendable_arguments(raw: str) -> str:
    """The arguments as a provider takes them back: `raw` where it is a clean JSON object, else one that quotes it."""
    try:
        arguments = parse_arguments(raw)
    except BadArguments:
        head = bound_text(raw, max_bytes=MAX_ERROR_BYTES).text
        return json.dumps({UNREADABLE: head}, ensure_ascii=False)
    if raw.strip() and json.loads(raw) == arguments:
        return raw
    return json.dumps(arguments, ensure_ascii=False)


def validate(arguments: dict[str, Any], model: type[M]) -> M:
    """Give JSON data its types.

    Raises:
        BadArguments: it does not fit; each field that does not is named.
    """
    try:
        return model.model_validate_json(json.dumps(arguments))
    except ValidationError as error:
        raise BadArguments(_describe(error)) from None
    except Exception as error:  # a validator is application code and may raise anything
        raise BadArguments(f"checking the arguments failed with {type(error).__name__}: {error}") from None


def settle_arguments(arguments: dict[str, Any], model: type[BaseModel]) -> dict[str, Any]:
    """The JSON data to store for a call: what a person is shown and what the tool is run with.

    That is the arguments after validation, defaults filled in, when reading them again gives the same
    values; else (a secret, an infinite default) the arguments as they came, which are known to fit.

    Raises:
        BadArguments: they do not fit.
    """
    typed = validate(arguments, model)
    try:
        stored: dict[str, Any] = clean_json(typed.model_dump(mode="json", by_alias=True))
        if validate(stored, model) == typed:
            return stored
    except Exception:  # a serializer is application code and may raise anything
        return arguments
    return arguments


def parameters_text(model: type[BaseModel]) -> str:
    """One line that names the parameters a tool takes."""
    schema = model.model_json_schema()
    required = schema.get("required", [])
    fields = [f"{name}{' (required)' if name in required else ''}" for name in schema.get("properties", {})]
    return f"Parameters: {', '.join(fields)}." if fields else "It takes no parameters."


def normalise_calls(calls: Sequence[ToolCallRequest]) -> tuple[ToolCallRequest, ...]:
    """Give each call of one response an id of its own: the first keeps it, later and missing ones get new ones.

    The same calls always get the same ids.
    """
    given = {clean_text(call.call_id) for call in calls}
    used: set[str] = set()
    settled: list[ToolCallRequest] = []
    for position, call in enumerate(calls, start=1):
        call_id = clean_text(call.call_id)
        if not call_id.strip() or call_id in used:
            call_id = _unused(call_id.strip() or f"call_{position}", given | used)
        used.add(call_id)
        settled.append(call.model_copy(update={"call_id": call_id}))
    return tuple(settled)


def _unused(wanted: str, taken: set[str]) -> str:
    candidate, number = wanted, 1
    while candidate in taken:
        number += 1
        candidate = f"{wanted}_{number}"
    return candidate


def _load(raw: str) -> Any:
    try:
        return json.loads(raw, parse_constant=_refuse_constant, parse_float=_finite)
    except BadArguments:
        raise
    except json.JSONDecodeError as error:
        near = raw[max(error.pos - 20, 0) : error.pos + 20]
        where = f"line {error.lineno}, column {error.colno}, near {near!r}"
        raise BadArguments(f"not valid JSON: {error.msg} at {where}; {len(raw)} characters were received") from None
    except ValueError as error:  # an integer of thousands of digits
        raise BadArguments(f"not valid JSON: {error}") from None
    except RecursionError:
        raise BadArguments("not valid JSON: nested too deeply") from None


def _refuse_constant(name: str) -> float:
    raise BadArguments(f"not valid JSON: {name} is no JSON number; send null or a text")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise BadArguments(f"the number {text[:EXCERPT]} is too large")
    return number


def _kind(value: Any) -> str:
    match value:
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case list():
            return "a list"
        case str() if value.lstrip().startswith("{"):
            return "a text that holds one; send the object itself, without quotes around it"
        case _:
            return "a text"


def _describe(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False)
    lines = [_describe_field(detail) for detail in found[:MAX_ERROR_FIELDS]]
    if len(found) > MAX_ERROR_FIELDS:
        lines.append(f"and {len(found) - MAX_ERROR_FIELDS} more")
    return "\n".join(lines)


def _describe_field(detail: ErrorDetails) -> str:
    field = ".".join(str(part) for part in detail["loc"])[-EXCERPT:] or "arguments"
    if detail["type"] == "missing":
        return f"{field}: required, but missing"
    if detail["type"] == "extra_forbidden":
        return f"{field}: there is no such parameter"
    got = repr(detail["input"])
    return f"{field}: {detail['msg']}; got {got if len(got) <= EXCERPT else got[:EXCERPT] + '…'}"
