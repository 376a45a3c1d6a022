"""A final answer as data: what its schema is, what is wrong with an answer, and what is told of it (spec §7.10)."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from tarry.core.output import MAX_SCHEMA_BYTES, OutputSchema, correction, told
from tarry.core.text import canonical_json
from tarry.outputs import problem_of, schema_of


class Item(BaseModel):
    name: str
    price: float = Field(ge=0)


class Invoice(BaseModel):
    """What a shop sends."""

    number: int
    items: list[Item]
    due: date | None = None


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")

    word: str
    number: int | None


class Tree(BaseModel):
    children: list[Tree] = []


PROBLEMS: dict[str, tuple[str, str]] = {
    "it fits": ('{"number": 1, "items": [{"name": "pen", "price": 2.5}]}', ""),
    "words": ("Here you are!", "It is no JSON: Expecting value: line 1 column 1 (char 0)."),
    "a fence": ("```json\n{}\n```", "It is no JSON: Expecting value: line 1 column 1 (char 0)."),
    "words behind it": ('{"number": 1, "items": []} Done.', "It is no JSON: Extra data: line 1 column 28 (char 27)."),
    "no number": ('{"number": NaN, "items": []}', "It is no JSON: NaN is no JSON number."),
    "another type": ("[]", "At $: [] is not of type 'object'."),
    "several places": (
        '{"number": "1", "items": [{"name": "pen", "price": -1}]}',
        "At $.number: '1' is not of type 'integer'.\nAt $.items[0].price: -1 is less than the minimum of 0.",
    ),
}


@pytest.mark.parametrize("case", PROBLEMS)
def test_problem_names_every_place(case: str) -> None:
    text, expected = PROBLEMS[case]

    assert problem_of(schema_of(Invoice).json_schema, text) == expected


def test_problem_of_a_very_wrong_answer_is_short() -> None:
    schema = schema_of(Invoice).json_schema

    assert len(problem_of(schema, canonical_json({"items": ["x" * 5_000] * 100}))) <= 2_048
    assert problem_of(schema, "[" * 100_000) == "It is nested too deeply."


def test_schema_that_refers_elsewhere_fetches_nothing() -> None:
    assert "cannot be used" in problem_of({"$ref": "https://example.com/schema.json"}, "{}")


@pytest.mark.parametrize("schema", [{"type": 7}, {"type": "nonsense"}, {"required": 1}])
def test_schema_that_is_none_is_a_problem_and_raises_nothing(schema: dict[str, Any]) -> None:
    assert "cannot be used" in problem_of(schema, "{}")


def test_schema_of_a_recursive_model_is_taken() -> None:
    assert problem_of(schema_of(Tree).json_schema, '{"children": [{"children": []}]}') == ""


def test_only_a_schema_without_open_ends_is_enforced_strictly() -> None:
    assert [schema_of(model).is_closed for model in (Closed, Invoice, Tree)] == [True, False, False]


def test_schema_that_is_too_large_is_refused() -> None:
    with pytest.raises(ValidationError, match="16384 are allowed"):
        OutputSchema(name="big", json_schema={"description": "x" * MAX_SCHEMA_BYTES})


def test_class_without_a_schema_is_refused_with_its_name() -> None:
    class Odd(BaseModel):
        thing: Callable[[], int]

    with pytest.raises(ValueError, match="Odd has no JSON schema"):
        schema_of(Odd)


def test_model_is_told_the_schema_and_what_was_wrong() -> None:
    output = OutputSchema(name="Answer", json_schema={"type": "object"})

    assert told(output).endswith('schema, and nothing else around it:\n{"type":"object"}')
    assert "At $: no.\nAnswer again" in correction("At $: no.")


def test_schema_that_no_answer_can_be_held_against_is_refused_before_anybody_is_asked() -> None:
    class Name(BaseModel):
        name: str = Field(pattern=r"^\p{L}+$")  # fine for pydantic, and for no other

    with pytest.raises(ValueError, match=r"the schema of Name cannot be used: '\^.*' is not a 'regex'"):
        schema_of(Name)


def test_number_beyond_all_bounds_is_a_problem() -> None:
    class Price(BaseModel):
        euros: float = Field(multiple_of=0.01)

    assert problem_of(schema_of(Price).json_schema, '{"euros": 1e400}') != ""


@given(st.text(max_size=40) | st.recursive(st.none() | st.booleans() | st.integers(), st.lists).map(canonical_json))
def test_any_text_has_a_problem_or_fits(text: str) -> None:
    problem = problem_of(schema_of(Closed).json_schema, text)

    if not problem:
        Closed.model_validate_json(text)
