"""Tools whose parameters are a JSON Schema that somebody else wrote, not a function's signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jsonschema.exceptions import SchemaError, best_match
from jsonschema.protocols import Validator
from jsonschema.validators import Draft202012Validator, validator_for
from pydantic import BaseModel, RootModel, model_validator
from pydantic_core import PydanticCustomError
from referencing import Registry

MAX_PROBLEMS = 5


def parameters_of(name: str, schema: Mapping[str, Any]) -> type[BaseModel]:
    """What `Tool.parameters` is for such a schema: its arguments are the object that was sent, as the one field `root`.

    The model is told of the schema as it is. References are looked up in the schema itself, nowhere else.

    Raises:
        ValueError: it is no JSON Schema of an object.
    """
    stated = {"type": "object", **schema}
    kind: type[Validator] = validator_for(stated, default=Draft202012Validator)
    try:
        kind.check_schema(stated)
    except SchemaError as error:
        raise ValueError(f"the parameters of {name} are no JSON Schema: {error.message}") from None
    if stated["type"] != "object":
        raise ValueError(f"the parameters of {name} are no object but {stated['type']!r}")
    validator = kind(stated, registry=Registry())

    class Parameters(RootModel[dict[str, Any]]):
        @model_validator(mode="before")
        @classmethod
        def _fits(cls, data: Any) -> Any:
            if problems := _problems(validator, data):
                raise PydanticCustomError("schema", "{problems}", {"problems": "; ".join(problems)})
            return data

        @classmethod
        def model_json_schema(cls, *_: Any, **__: Any) -> dict[str, Any]:
            return stated

    Parameters.__name__ = name
    return Parameters


def _problems(validator: Validator, data: Any) -> list[str]:
    """The first few that were found, each with its place."""
    found: list[str] = []
    for error in validator.iter_errors(data):
        told = best_match([error]) or error
        place = ".".join(str(part) for part in told.absolute_path)
        found.append(f"{place}: {told.message}" if place else told.message)
        if len(found) == MAX_PROBLEMS:
            break
    return found
