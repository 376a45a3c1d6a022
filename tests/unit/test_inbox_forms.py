"""Forms made of signals, and values of what was filled in (spec §23.4). Pure."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from signals.tokens import Signal
from workers.inbox.forms import Form, filled, form_of


class Colour(Enum):
    """One of two."""

    red = "red"
    blue = "blue"


class Place(BaseModel):
    """Somewhere."""

    city: str
    floor: int = 0


class Order(BaseModel):
    """Everything a form can ask for."""

    title: str = Field(max_length=50, description="What it is called")
    count: int = Field(ge=1)
    price: float
    sure: bool
    colour: Colour
    kind: Literal["a", "b"] = "a"
    due: datetime
    place: Place
    tags: list[str] = []
    note: str | None = None
    left: int | None


ORDER = Signal("test.order", 1, Order)
SENT = {
    "value.title": "Chair",
    "value.count": "2",
    "value.price": "2.50",
    "value.sure": "true",
    "value.colour": '"red"',
    "value.kind": '"b"',
    "value.due": "2030-01-31T12:00",
    "value.place": '{"city": "Oslo"}',
    "value.tags": '["x"]',
    "value.note": "",
    "value.left": "",
}


def problems(form: Form) -> dict[str, str]:
    """What is wrong, by field."""
    return {field.name: field.problem for field in form.fields if field.problem}


def test_a_form_asks_for_each_part_in_its_own_way() -> None:
    found = {one.name: (one.kind, one.required, one.nullable) for one in form_of(ORDER).fields}

    assert found == {
        "title": ("text", True, False),
        "count": ("integer", True, False),
        "price": ("number", True, False),
        "sure": ("boolean", True, False),
        "colour": ("choice", True, False),
        "kind": ("choice", False, False),
        "due": ("time", True, False),
        "place": ("json", True, False),
        "tags": ("json", False, False),
        "note": ("long", False, True),
        "left": ("integer", True, True),
    }
    assert form_of(ORDER).fields[0].help == "What it is called"


def test_a_form_that_is_filled_in_gives_the_value() -> None:
    form, value = filled(form_of(ORDER), SENT, ORDER)

    assert (form.problem, problems(form)) == ("", {})
    assert value == {
        "title": "Chair",
        "count": 2,
        "price": 2.5,
        "sure": True,
        "colour": "red",
        "kind": "b",
        "due": "2030-01-31T12:00:00Z",
        "place": {"city": "Oslo"},
        "tags": ["x"],
        "left": None,
    }
    assert ORDER.read(value, 1).place.city == "Oslo"


def test_everything_typed_stays_and_each_mistake_stands_at_its_field() -> None:
    wrong = {"value.count": "two", "value.price": "nan", "value.sure": "", "value.due": "soon", "value.place": "{"}
    form, _ = filled(form_of(ORDER), SENT | wrong, ORDER)

    assert {field.input: field.text for field in form.fields} == SENT | wrong
    assert {name: text.partition(".")[0].partition(":")[0] for name, text in problems(form).items()} == {
        "count": "A whole number is needed, such as 3",
        "price": "A number is needed, such as 2",
        "sure": "This is needed",
        "due": "A date and a time are needed, such as 2030-01-31T12",
        "place": "This is no JSON",
    }


def test_what_the_token_refuses_stands_at_its_field_too() -> None:
    form, _ = filled(form_of(ORDER), SENT | {"value.count": "0", "value.place": '{"city": 1, "x": 2}'}, ORDER)

    assert problems(form) == {
        "count": "Input should be greater than or equal to 1",
        "place": "city: Input should be a valid string; x: Extra inputs are not permitted",
    }


@pytest.mark.parametrize(
    ("schema", "kind", "sent", "value"),
    [
        (str, "long", "yes", "yes"),
        (bool, "boolean", "false", False),
        (int, "integer", " 7 ", 7),
        (Literal["a", "b"], "choice", '"b"', "b"),
        (list[int], "json", "[1]", [1]),
    ],
)
def test_a_value_that_is_no_object_has_one_field(schema: Any, kind: str, sent: str, value: Any) -> None:
    token = Signal[Any]("test.plain", 1, schema)
    form, found = filled(form_of(token), {"value.": sent}, token)

    assert ([field.kind for field in form.fields], form.problem, found) == ([kind], "", value)


def test_a_signal_that_is_not_known_is_asked_for_as_json() -> None:
    form, value = filled(form_of(None), {"value.": '{"any": 1}'}, None)

    assert ([field.kind for field in form.fields], form.problem, value) == (["json"], "", {"any": 1})


def test_a_schema_that_refers_to_itself_is_asked_for_as_json() -> None:
    class Tree(BaseModel):
        """Of trees."""

        below: list[Tree] = []

    Tree.model_rebuild(_types_namespace={"Tree": Tree})
    form, value = filled(form_of(Signal("test.tree", 1, Tree)), {"value.below": '[{"below": []}]'}, None)

    assert ([field.kind for field in form.fields], value) == (["json"], {"below": [{"below": []}]})


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", "1e999", '"\\ud800"', "[" * 100_000])
def test_json_that_nothing_could_carry_is_a_problem_of_its_field(text: str) -> None:
    form, _ = filled(form_of(None), {"value.": text}, None)

    assert form.fields[0].problem.startswith(("This is no JSON", "This cannot be sent"))


def test_a_text_that_was_emptied_is_empty_and_not_its_default() -> None:
    class Greeting(BaseModel):
        """With what stands in it at first."""

        text: str = "Hello"
        name: str | None = "Ana"
        count: int = 3

    token = Signal("test.greeting", 1, Greeting)
    emptied = {"value.text": "", "value.name": "", "value.count": ""}

    assert filled(form_of(token), emptied, token)[1] == {"text": "", "name": None}
    assert filled(form_of(token), {}, token)[1] == {}
