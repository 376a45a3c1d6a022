"""Schemas of signals: strict, as JSON, and closed to unknown fields (spec §3.1)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypedDict

from signals import Signal, judge


class CiResult(BaseModel):
    status: Literal["passed", "failed"]
    log_url: str = ""


class Strict(BaseModel):
    flag: bool = False
    count: int = 0
    share: float = 0.0
    text: str = ""
    when: datetime | None = None
    span: timedelta | None = None
    price: Decimal | None = None
    names: set[str] = set()
    pair: tuple[int, int] | None = None


class Part(BaseModel):
    n: int = 0


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    n: int = 0


class Ignoring(BaseModel):
    model_config = ConfigDict(extra="ignore")
    n: int = 0


class Pair(TypedDict):
    x: int


@dataclass
class Spot:
    x: int = 0


class Tree(BaseModel):
    part: Part = Part()
    parts: list[Part] = []
    named: dict[str, Part] = {}
    either: Part | int = 0
    pair: Pair = {"x": 0}
    spot: Spot = Spot()
    child: Tree | None = None


class Mixed(BaseModel):
    free: Open = Open()
    config: int = 0


CI = Signal("app.ci-result", 1, CiResult)
STRICT = Signal("app.strict", 1, Strict)


def refusal(token: Signal[Any], value: Any, version: int | None = None) -> str:
    return judge({token.name: token}, token.name, value, version) or ""


LOOSE: list[tuple[str, Any]] = [
    ("flag", "true"),
    ("flag", 1),
    ("count", 1.5),
    ("count", 1.0),
    ("count", "1"),
    ("count", True),
    ("share", "0.5"),
    ("share", True),
    ("text", 1),
    ("text", None),
    ("when", 1_700_000_000),
    ("names", "ab"),
    ("pair", [1]),
    ("pair", ["1", 2]),
    ("unknown", 1),
]


@pytest.mark.parametrize(("field", "value"), LOOSE)
def test_value_of_nearly_the_right_type_is_invalid(field: str, value: Any) -> None:
    assert refusal(STRICT, {field: value}).startswith(field)


def test_json_forms_of_rich_types_are_read() -> None:
    value = {
        "flag": True,
        "share": 1,
        "when": "2026-01-01T00:00:00Z",
        "span": "PT1H",
        "price": "1.10",
        "names": ["a"],
        "pair": [1, 2],
    }

    assert STRICT.read(value, 1) == Strict(
        flag=True,
        share=1.0,
        when=datetime(2026, 1, 1, tzinfo=UTC),
        span=timedelta(hours=1),
        price=Decimal("1.10"),
        names={"a"},
        pair=(1, 2),
    )


def test_field_declared_lax_is_strict_all_the_same() -> None:
    class Lax(BaseModel):
        n: int = Field(strict=False)

    assert "n: " in refusal(Signal("app.lax", 1, Lax), {"n": "1"})


def test_value_encoded_twice_is_invalid_and_not_decoded_again() -> None:
    assert "value: " in refusal(CI, json.dumps({"status": "passed"}))
    assert refusal(CI, {"status": "passed"}) == ""


@pytest.mark.parametrize(
    "value",
    [
        {"junk": 1},
        {"part": {"junk": 1}},
        {"parts": [{}, {"junk": 1}]},
        {"named": {"a": {"junk": 1}}},
        {"either": {"junk": 1}},
        {"pair": {"x": 0, "junk": 1}},
        {"spot": {"junk": 1}},
        {"child": {"child": {"part": {"junk": 1}}}},
    ],
)
def test_unknown_field_is_refused_at_any_depth(value: Any) -> None:
    assert "junk" in refusal(Signal("app.tree", 1, Tree), value)


@pytest.mark.parametrize("model", [Open, Ignoring])
def test_unknown_field_passes_where_the_model_allows_it(model: type[BaseModel]) -> None:
    assert refusal(Signal("app.open", 1, model), {"n": 1, "junk": 1}) == ""


def test_outer_model_refuses_beside_a_nested_one_that_allows() -> None:
    token = Signal("app.mixed", 1, Mixed)

    assert "junk" in refusal(token, {"junk": 1})
    value = token.read({"free": {"junk": 1}}, 1)
    assert isinstance(value, Mixed)
    assert value.free.model_extra == {"junk": 1}


class Either(BaseModel):
    answer: Open | bool


def test_nested_model_that_allows_is_found_in_a_union() -> None:
    token = Signal("app.either", 1, Either)

    assert refusal(token, {"answer": {"junk": 1}}) == ""
    assert "junk" in refusal(token, {"answer": True, "junk": 1})


class Answers(RootModel[list[Part]]):
    pass


class OpenAnswers(RootModel[list[Open]]):
    pass


@pytest.mark.parametrize(
    ("schema", "value", "junk"),
    [
        (Answers, [{"n": 1}], [{"n": 1, "junk": 1}]),
        (list[Part], [{"n": 1}], [{"n": 1, "junk": 1}]),
        (Spot, {"x": 1}, {"x": 1, "junk": 1}),
        (Pair, {"x": 1}, {"x": 1, "junk": 1}),
        (OpenAnswers, [{"n": 1, "junk": 1}], [{"n": "1"}]),
        (bool, True, 1),
        (int, 1, True),
        (str, "", 1),
    ],
)
def test_any_type_that_pydantic_takes_is_a_schema(schema: Any, value: Any, junk: Any) -> None:
    token = Signal("app.any", 1, schema)

    assert refusal(token, value) == ""
    assert refusal(token, junk) != ""


def test_schema_may_name_a_model_declared_later() -> None:
    token = Signal("app.late", 1, Later)

    assert refusal(token, {"detail": {"n": 1}}) == ""
    assert "junk" in refusal(token, {"detail": {"junk": 1}})


class Later(BaseModel):
    detail: Detail


class Detail(BaseModel):
    n: int = 0
