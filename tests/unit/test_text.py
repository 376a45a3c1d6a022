"""Text at the boundary."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signals.data import MAX_DEPTH
from tarry.core.text import Bounded, bound_text, canonical_json, clean_json, clean_text, head_of

wild_text = st.text(st.characters())


@pytest.mark.parametrize(
    ("given_text", "clean"),
    [
        ("plain", "plain"),
        ("größer 🦊", "größer 🦊"),
        ("a\ud800b", "a\ufffdb"),
        ("a\udc00", "a\ufffd"),
        ("\ud83c\udf78", "🍸"),
        ("\udf78\ud83c", "\ufffd\ufffd"),
        ("\ufeffbom", "\ufeffbom"),
        ("\ud800", "\ufffd"),
    ],
)
def test_lone_surrogates_are_replaced_and_pairs_become_one_character(given_text: str, clean: str) -> None:
    assert clean_text(given_text) == clean


@given(wild_text)
def test_cleaned_text_is_valid_and_stays_as_it_is(text: str) -> None:
    clean = clean_text(text)

    clean.encode()
    assert clean_text(clean) == clean


def test_json_data_is_cleaned_through_and_through() -> None:
    value = {"a\ud800": (math.nan, [math.inf, 1.5, True, None]), 3: {"b": "\udfff"}}

    assert clean_json(value) == {"a\ufffd": [None, [None, 1.5, True, None]], "3": {"b": "\ufffd"}}


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_json_data_nested_too_deeply_is_refused_before_anything_overflows() -> None:
    assert clean_json(nested(MAX_DEPTH)) == nested(MAX_DEPTH)
    for levels in (MAX_DEPTH + 1, 5000):
        with pytest.raises(TypeError, match="deeper than 100 levels"):
            clean_json(nested(levels))


def test_what_is_no_json_data_is_refused_by_its_type() -> None:
    with pytest.raises(TypeError, match="set is not JSON data"):
        clean_json([{1, 2}])


def test_equal_data_has_one_json_text() -> None:
    assert canonical_json({"b": 1, "a": "ü"}) == canonical_json({"a": "ü", "b": 1}) == '{"a":"ü","b":1}'
    with pytest.raises(ValueError, match="JSON"):
        canonical_json(math.nan)


@pytest.mark.parametrize(
    ("text", "limits", "bounded"),
    [
        ("", {}, Bounded("")),
        ("short\n", {}, Bounded("short\n")),
        ("a\nb\nc\n", {"max_lines": 2}, Bounded("a\nb\n", 2, 1)),
        ("aa\nbb\ncc", {"max_bytes": 7}, Bounded("aa\nbb\n", 2, 1)),
        ("aa\nbb\ncc", {"max_bytes": 8}, Bounded("aa\nbb\ncc")),
        ("あああ", {"max_bytes": 8}, Bounded("ああ", 3, 1)),
        ("a\x00b\x1b[0m\tc\r\n\x7f\x85", {}, Bounded("ab[0m\tc\r\n")),
        ("a\ud800", {}, Bounded("a\ufffd")),
        ("a\nb\nc\n", {"max_lines": 2, "keep": "tail"}, Bounded("b\nc\n", 2, 1, "tail")),
        ("aa\nbb\ncc", {"max_bytes": 5, "keep": "tail"}, Bounded("bb\ncc", 3, 1, "tail")),
        ("あああ", {"max_bytes": 8, "keep": "tail"}, Bounded("ああ", 3, 1, "tail")),
    ],
)
def test_text_is_cut_to_whole_lines_within_the_limits(text: str, limits: dict[str, Any], bounded: Bounded) -> None:
    assert bound_text(text, **limits) == bounded


@given(st.lists(wild_text).map("\n".join), st.integers(4, 60), st.integers(1, 8))
def test_bounded_text_is_a_valid_head_within_the_limits(text: str, max_bytes: int, max_lines: int) -> None:
    bounded = bound_text(text, max_bytes=max_bytes, max_lines=max_lines)
    whole = bound_text(text, max_bytes=10**9, max_lines=10**9).text

    assert len(bounded.text.encode()) <= max_bytes
    assert len(bounded.text.splitlines()) <= max_lines
    assert whole.startswith(bounded.text)
    assert len(whole.encode()) - len(bounded.text.encode()) == bounded.dropped_bytes
    assert bounded.is_cut == (bounded.text != whole) == (bounded.dropped_lines > 0)


@given(wild_text)
def test_bounding_twice_changes_nothing(text: str) -> None:
    once = bound_text(text, max_bytes=40, max_lines=3).text

    assert bound_text(once, max_bytes=40, max_lines=3) == Bounded(once)


@given(st.recursive(st.integers() | st.floats() | wild_text, lambda inner: st.lists(inner), max_leaves=10))
def test_cleaned_data_always_has_a_json_text(value: Any) -> None:
    clean = clean_json(value)

    assert json.loads(canonical_json(clean).encode()) == clean


@given(st.text(), st.integers(0, 50))
def test_the_head_of_a_text_is_all_that_fits_up_to_a_whole_character(text: str, max_bytes: int) -> None:
    clean = bound_text(text, max_bytes=10_000).text
    head = head_of(text, max_bytes)

    assert clean.startswith(head.text)
    assert len(head.text.encode()) <= max_bytes
    following = clean[len(head.text) : len(head.text) + 1]
    assert head.is_cut == bool(following)
    assert not following or len((head.text + following).encode()) > max_bytes
