"""Names and schemas of MCP tools."""

from __future__ import annotations

from typing import Any

import pytest

from tarry.core.arguments import BadArguments, parameters_text, settle_arguments
from tarry.mcp.tools import legal_names
from tarry.schemas import parameters_of

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"path": {"type": "string", "minLength": 1}, "depth": {"$ref": "#/$defs/Depth"}},
    "required": ["path"],
    "additionalProperties": False,
    "$defs": {"Depth": {"type": "integer", "maximum": 3}},
}


@pytest.mark.parametrize(
    ("tools", "names"),
    [
        (["read", "write-file"], ["s_read", "s_write-file"]),
        (["a.b", "größe"], ["s_a_b", "s_gr__e"]),
        (["a.b", "a_b"], ["s_a_b_2e7336dc", "s_a_b_648fa9b3"]),
        (["x" * 100], [f"s_{'x' * 53}_09ecb6eb"]),
    ],
)
def test_tools_get_names_that_every_provider_takes(tools: list[str], names: list[str]) -> None:
    assert legal_names("s", tools) == names
    assert legal_names("s", tools[::-1]) == names[::-1]


def test_model_is_told_of_the_schema_as_the_server_gives_it() -> None:
    assert parameters_of("t", SCHEMA).model_json_schema() == SCHEMA
    assert parameters_of("t", {"properties": {}}).model_json_schema() == {"type": "object", "properties": {}}
    assert parameters_text(parameters_of("t", SCHEMA)) == "Parameters: path (required), depth."


@pytest.mark.parametrize("sent", [{"path": "a"}, {"path": "a", "depth": 3}])
def test_arguments_that_fit_the_schema_are_stored_as_they_came(sent: dict[str, Any]) -> None:
    assert settle_arguments(sent, parameters_of("t", SCHEMA)) == sent


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({}, "'path' is a required property"),
        ({"path": ""}, "path: '' should be non-empty"),
        ({"path": 1}, "path: 1 is not of type 'string'"),
        ({"path": "a", "depth": 4}, "depth: 4 is greater than the maximum of 3"),
        ({"path": "a", "more": 1}, "Additional properties are not allowed ('more' was unexpected)"),
    ],
)
def test_arguments_that_do_not_fit_are_refused_with_their_place(sent: dict[str, Any], says: str) -> None:
    with pytest.raises(BadArguments) as raised:
        settle_arguments(sent, parameters_of("t", SCHEMA))

    assert says in str(raised.value)


@pytest.mark.parametrize("schema", [{"type": "nothing"}, {"properties": []}, {"type": "array"}])
def test_schema_that_is_none_of_an_object_is_refused_when_it_is_declared(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="the parameters of t are no"):
        parameters_of("t", schema)


def test_references_lead_nowhere_outside_of_the_schema() -> None:
    parameters = parameters_of("t", {"properties": {"a": {"$ref": "http://127.0.0.1:9/schema"}}})

    with pytest.raises(ValueError, match="checking the arguments failed"):
        settle_arguments({"a": 1}, parameters)
