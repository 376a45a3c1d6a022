"""The form of an answer, as OpenAI's APIs take it."""

from __future__ import annotations

from typing import Any

from tarry.core.output import OutputSchema


def output_format(output: OutputSchema) -> dict[str, Any]:
    """Name and schema; `strict` only where the provider would take it, since it refuses a schema with an open end."""
    return {"name": output.name, "schema": output.json_schema, "strict": output.is_closed}
