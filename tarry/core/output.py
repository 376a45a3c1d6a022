"""A final answer that is data: the schema it must fit, and what the model is told of that (spec §7.10).

Pure. The schema is pinned with the input as plain JSON; no class ever enters history.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from tarry.core.messages import Frozen
from tarry.core.text import canonical_json

MAX_SCHEMA_BYTES = 16 * 1024
KEY = "answer-format"
"""Of the section that tells the schema to a model whose provider enforces none."""

_CLOSED = {"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf"}
_REMARKS = {"$ref", "$defs", "title", "description"}


def _small(schema: dict[str, Any]) -> dict[str, Any]:
    size = len(canonical_json(schema).encode())
    if size > MAX_SCHEMA_BYTES:
        raise ValueError(f"the schema of the output has {size} bytes, {MAX_SCHEMA_BYTES} are allowed")
    return schema


class OutputSchema(Frozen):
    """What the answer to an input must be: JSON that fits `json_schema`. `name` is for the provider."""

    name: str = Field(pattern="^[a-zA-Z0-9_-]{1,64}$")
    json_schema: Annotated[dict[str, Any], AfterValidator(_small)]

    @property
    def is_closed(self) -> bool:
        """Whether providers can enforce it strictly: every object names all it has, and needs all of it."""
        return self.json_schema.get("type") == "object" and _is_closed(self.json_schema)

    def size(self) -> int:
        """Bytes that it counts for in the inbox."""
        return len(canonical_json(self.json_schema).encode())


def told(output: OutputSchema) -> str:
    """The schema in words, for a model whose provider enforces none."""
    schema = canonical_json(output.json_schema)
    return f"Your final answer is one JSON value that fits this schema, and nothing else around it:\n{schema}"


def correction(problem: str) -> str:
    """The input that sends the agent back."""
    return (
        f"Your answer does not have the form that was asked for. {problem}\n"
        "Answer again, with the corrected JSON value alone."
    )


def _is_closed(schema: Any) -> bool:
    if isinstance(schema, list):
        return all(_is_closed(one) for one in schema)
    if not isinstance(schema, dict):
        return True
    if not schema.keys() <= _CLOSED | _REMARKS:
        return False
    properties = schema.get("properties", {})
    if schema.get("type") == "object" and (
        schema.get("additionalProperties") is not False or set(schema.get("required", ())) != set(properties)
    ):
        return False
    inner = [*properties.values(), *schema.get("$defs", {}).values(), schema.get("items"), *schema.get("anyOf", ())]
    return all(_is_closed(one) for one in inner)
