"""Plain JSON data: what may enter the state of a task, and its size."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from signals.data import MAX_DEPTH, NotJson, clean, json_size, json_text

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda part: st.lists(part, max_size=4) | st.dictionaries(st.text(), part, max_size=4),
    max_leaves=12,
)


class Holder(BaseModel):
    data: Any


class Level(IntEnum):
    HIGH = 3


def nested(depth: int) -> Any:
    data: Any = 1
    for _ in range(depth):
        data = [data]
    return data


@given(JSON)
def test_data_that_is_accepted_reads_back_equal(data: Any) -> None:
    assert json.loads(json_text(data)) == data
    assert Holder.model_validate_json(Holder(data=data).model_dump_json()).data == data
    assert json_size(data) == len(json_text(data).encode())


CYCLE: list[Any] = []
CYCLE.append(CYCLE)

NOT_DATA: dict[str, Any] = {
    "nan is not a JSON number": math.nan,
    "inf is not a JSON number": json.loads("1e999"),
    "-inf is not a JSON number": [{"a": -math.inf}],
    "a text holds a lone surrogate": {"a": ["\ud83d"]},
    "datetime is not JSON data": datetime(2026, 1, 1, tzinfo=UTC),
    "bytes is not JSON data": [b"x"],
    "set is not JSON data": {1, 2},
    "Holder is not JSON data": Holder(data=1),
    "a name in an object is not a string": {1: "x"},
    "the data is nested deeper than 100 levels": nested(MAX_DEPTH + 1),
    "Exceeds the limit": 10**5000,
}


@pytest.mark.parametrize("why", NOT_DATA)
def test_what_json_cannot_carry_unchanged_is_refused(why: str) -> None:
    with pytest.raises(NotJson, match=why):
        json_text(NOT_DATA[why])


def test_a_name_with_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(NotJson, match="surrogate"):
        json_text({"\udc00": 1})


def test_data_that_holds_itself_is_refused() -> None:
    with pytest.raises(NotJson, match="nested deeper"):
        json_text(CYCLE)


@pytest.mark.parametrize("data", [nested(MAX_DEPTH), 10**4000, -0.0, 1e308, 5e-324, [Level.HIGH], (1, 2)])
def test_odd_but_plain_data_reads_back_equal(data: Any) -> None:
    assert json.loads(json_text(data)) == json.loads(json.dumps(data))
    assert Holder.model_validate_json(Holder(data=data).model_dump_json()).data == json.loads(json.dumps(data))


@pytest.mark.parametrize(("text", "cleaned"), [("a\ud800b", "a?b"), ("x" * 30, "x" * 20), ("é😀", "é😀"), ("", "")])
def test_cleaned_text_is_valid_unicode_and_bounded(text: str, cleaned: str) -> None:
    assert clean(text, 20) == cleaned
