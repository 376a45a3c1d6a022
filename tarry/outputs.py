"""Final answers as data: from a pydantic model to its schema, and from an answer's text to what is wrong with it."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from pydantic import BaseModel
from referencing import Registry
from referencing.exceptions import Unresolvable

from tarry.core.output import OutputSchema
from tarry.core.text import bound_text

MAX_PROBLEM_BYTES = 2 * 1024
MAX_PROBLEMS = 5


def schema_of(output: type[BaseModel]) -> OutputSchema:
    """What an answer must be to be read as `output`.

    Raises:
        ValueError: it has no schema, one of over 16 KiB, or one that nothing can be checked against.
    """
    try:
        schema = output.model_json_schema()
        Draft202012Validator.check_schema(schema)
    except SchemaError as error:
        raise ValueError(f"the schema of {output.__name__} cannot be used: {error.message}") from None
    except Exception as error:  # a model is application code
        raise ValueError(f"{output.__name__} has no JSON schema: {error}") from None
    return OutputSchema(name=re.sub("[^a-zA-Z0-9_-]", "_", output.__name__)[:64] or "output", json_schema=schema)


def problem_of(schema: dict[str, Any], text: str) -> str:
    """What is wrong with an answer, in at most 2 KiB, every place with its path; "" for one that fits."""
    try:
        Draft202012Validator.check_schema(schema)
        value = json.loads(text, parse_constant=_refuse)
        # Nothing is fetched: a schema refers to its own parts alone.
        errors = Draft202012Validator(schema, registry=Registry()).iter_errors(value)
        problems = [_told(error) for _, error in zip(range(MAX_PROBLEMS), errors, strict=False)]
    except ValueError as error:
        problems = [f"It is no JSON: {error}."]
    except RecursionError:
        problems = ["It is nested too deeply."]
    except OverflowError:
        problems = ["It holds a number that is too large."]
    except (SchemaError, Unresolvable) as error:
        problems = [f"The schema itself cannot be used: {error}"]
    return bound_text("\n".join(problems), max_bytes=MAX_PROBLEM_BYTES).text


def _told(error: ValidationError) -> str:
    message = bound_text(error.message, max_bytes=400, max_lines=3).text
    return f"At {error.json_path}: {message}."


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
