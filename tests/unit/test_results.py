"""What a model reads of a call's end."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from tarry.core import results
from tarry.core.protocol import CallError, ToolOutcome
from tarry.core.results import Diagnostic, Unencodable, encode_content, outcome_from, plain_json
from tarry.core.text import MAX_MODEL_BYTES, bound_text
from tarry.core.transcript import ToolFacts


class Ticket(BaseModel):
    number: int
    opened: datetime


@dataclass
class Point:
    x: float
    tags: tuple[str, ...] = ()


class Colour(StrEnum):
    RED = "red"


class Level(Enum):
    HIGH = 3


CONTENT: list[tuple[Any, str]] = [
    ("as it is\n", "as it is\n"),
    ("a\ud800b", "a\ufffdb"),
    (Colour.RED, "red"),
    (True, "true"),
    (3, "3"),
    (Level.HIGH, "3"),
    ([1, "ü", None], '[1, "ü", null]'),
    ({"z": 1, "a": (2,)}, '{"z": 1, "a": [2]}'),
    ({"score": math.nan, "hi": [math.inf, -math.inf]}, '{"score": null, "hi": [null, null]}'),
    ({"k\ud800": "v\udfff", 1: {"x": "\ud83c\udf78"}}, '{"k\ufffd": "v\ufffd", "1": {"x": "🍸"}}'),
    (Ticket(number=7, opened=datetime(2026, 3, 1, tzinfo=UTC)), '{"number": 7, "opened": "2026-03-01T00:00:00Z"}'),
    ([Point(math.nan, ("a",))], '[{"x": null, "tags": ["a"]}]'),
    ({"at": Path("a/b"), "cost": Decimal("1.10"), "level": Level.HIGH}, '{"at": "a/b", "cost": "1.10", "level": 3}'),
    (b"bytes", '"bytes"'),
    ({1}, "[1]"),
]


@pytest.mark.parametrize(("content", "text"), CONTENT, ids=lambda value: ascii(value)[:40])
def test_content_becomes_clean_text_or_json(content: Any, text: str) -> None:
    assert encode_content(content) == text


def test_a_tool_that_returns_nothing_has_what_it_published() -> None:
    assert encode_content(None, "line 1\n\ud800") == "line 1\n\ufffd"
    assert encode_content("", "published") == ""


def circle() -> list[Any]:
    items: list[Any] = []
    items.append(items)
    return items


def deep() -> list[Any]:
    items: list[Any] = []
    for _ in range(5000):
        items = [items]
    return items


@pytest.mark.parametrize(
    "content",
    [object(), [object()], {"a": int}, b"\xff", circle(), deep(), (n for n in "ab"), 10**5000, {"a": ValueError("x")}],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_json_form_is_unencodable_and_says_why(content: Any) -> None:
    with pytest.raises(Unencodable, match=r"\w"):
        encode_content(content)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(), max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(json_like)
def test_any_json_like_value_becomes_strict_json_and_valid_unicode(value: Any) -> None:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = encode_content([value])

    assert json.loads(text.encode(), parse_constant=refuse) == [plain_json(value)]


def test_a_plain_result_is_the_content_and_nothing_else() -> None:
    outcome = outcome_from(bound_text("three lines\nof\nlog\n"), details={"n": 3})

    assert outcome == ToolOutcome(text="three lines\nof\nlog\n", facts=ToolFacts(details={"n": 3}))


def test_remarks_come_behind_the_content_in_one_block_and_into_the_record() -> None:
    remarks = [
        Diagnostic(severity="warn", message="two files\nwere skipped", code="skipped"),
        Diagnostic(message="cached"),
    ]

    outcome = outcome_from(bound_text("content"), is_error=True, diagnostics=remarks)

    assert outcome.text == ("content\n<harness>\n[warn] two files\n  were skipped (skipped)\n[info] cached\n</harness>")
    assert outcome.facts.diagnostics == ("[warn] two files\n  were skipped (skipped)", "[info] cached")
    assert outcome.is_error
    assert outcome.code == ""


def test_a_cut_result_says_how_much_is_gone_and_where_the_whole_is() -> None:
    content = bound_text("x" * 60 + "\n" + "y\n" * 99, max_bytes=100)

    outcome = outcome_from(content, full_output="sha256:abc")

    assert outcome.text.startswith("x" * 60)
    assert outcome.text.endswith(
        "<harness>\n[warn] Truncated: 160 bytes in 80 lines are left out; "
        "the whole text is kept as sha256:abc. (truncated)\n</harness>"
    )
    assert not outcome.is_error
    assert outcome.facts.full_output == "sha256:abc"


def test_an_empty_result_is_told_to_be_empty() -> None:
    outcome = outcome_from(bound_text(" \n"))

    assert outcome.text.strip() == "<harness>\n[info] There was no output.\n</harness>"
    assert outcome.facts.diagnostics == ()


@pytest.mark.parametrize("details", [object(), {"big": "x" * 100_000}, circle()], ids=["object", "large", "cycle"])
def test_details_that_cannot_be_kept_do_not_cost_the_result(details: Any) -> None:
    outcome = outcome_from(bound_text("content"), details=details)

    assert outcome.text.startswith("content\n<harness>\n[warn] The details were left out: ")
    assert outcome.facts.details is None
    assert not outcome.is_error


def test_details_are_cleaned_for_history() -> None:
    outcome = outcome_from(bound_text("content"), details={"score": math.nan, "text": "\ud800"})

    assert outcome.facts.details == {"score": None, "text": "\ufffd"}


ENDS: dict[str, tuple[ToolOutcome, str]] = {
    "interrupted": (
        results.interrupted("deploy", "half"),
        "Tool deploy was interrupted and may have partially run",
    ),
    "aborted": (results.aborted("deploy", "half"), "Tool deploy was aborted on request while it ran"),
    "timeout": (results.timed_out("deploy", 90, "half"), "Tool deploy timed out after 90 s"),
    "tool_error": (
        results.tool_error("deploy", ValueError("no such host"), "half"),
        "Tool deploy failed with ValueError: no such host",
    ),
    "unencodable_result": (
        results.unencodable("deploy", "a generator is no data"),
        "its result cannot be encoded: a generator is no data",
    ),
    "tool_unavailable": (results.unavailable("deploy"), "Tool deploy is not available: no worker has it"),
    "not_here": (results.not_here("deploy"), "Tool deploy is not here: this worker does not have it"),
    "lost": (results.lost("deploy"), "The result of tool deploy was lost"),
    "cut_off": (
        results.refusal(CallError(code="cut_off", text=results.cut_off_text())),
        "was cut off by its length limit or a content filter",
    ),
    "too_many_calls": (
        results.refusal(CallError(code="too_many_calls", text=results.too_many_text(64))),
        "Too many calls in one response",
    ),
    "invalid_arguments": (
        results.refusal(
            CallError(code="invalid_arguments", text=results.invalid_arguments_text("deploy", "p", "Parameters: a."))
        ),
        "Invalid arguments for tool deploy",
    ),
}


@pytest.mark.parametrize("code", ENDS)
def test_each_way_to_end_has_a_code_and_words_of_its_own(code: str) -> None:
    outcome, words = ENDS[code]

    assert outcome.code == outcome.facts.code == code
    assert outcome.is_error
    assert "<harness>\n[error] " in outcome.text
    assert [other for other, (end, _) in ENDS.items() if words in end.text] == [code]
    assert words not in results.missing_result_text("deploy")


@pytest.mark.parametrize("code", ["interrupted", "aborted", "timeout", "tool_error"])
def test_what_was_published_comes_before_the_words_of_a_failure(code: str) -> None:
    assert ENDS[code][0].text.startswith("half\n<harness>\n")


def test_a_call_aborted_before_its_start_says_so() -> None:
    assert "before it was started" in results.aborted("deploy", started=False).text


class Broken(Exception):
    def __str__(self) -> str:
        raise RuntimeError("even the message fails")


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (ValueError("a\ud800b"), "ValueError: a\ufffdb"),
        (ValueError(""), "ValueError, without a message"),
        (KeyError(), "KeyError, without a message"),
        (Broken(), "Broken, without a message"),
        (RuntimeError("first\nsecond"), "RuntimeError: first\n  second"),
    ],
    ids=["surrogate", "blank", "no arguments", "broken", "lines"],
)
def test_an_error_reaches_the_model_with_its_type_and_some_text(error: Exception, words: str) -> None:
    assert words in results.tool_error("deploy", error).text


FLOODS: list[Callable[[str], ToolOutcome]] = [
    lambda flood: outcome_from(bound_text(flood), diagnostics=[Diagnostic(message=flood)] * 100),
    lambda flood: results.interrupted(flood, flood),
    lambda flood: results.tool_error(flood, ValueError(flood), flood, [Diagnostic(message=flood)] * 100),
    lambda flood: results.unencodable(flood, flood),
    lambda flood: results.refusal(CallError(code="invalid_arguments", text=flood)),
]


@pytest.mark.parametrize("end", FLOODS)
@pytest.mark.parametrize("unit", ["x", "あ\n", "\ud800"], ids=ascii)
def test_nothing_a_tool_says_makes_a_result_large_or_invalid(end: Callable[[str], ToolOutcome], unit: str) -> None:
    outcome = end(unit * 100_000)

    assert len(outcome.text.encode()) <= MAX_MODEL_BYTES + 80 * 1024
    assert len(outcome.model_dump_json().encode()) < 256 * 1024


def test_diagnostics_beyond_the_limit_are_counted() -> None:
    outcome = outcome_from(bound_text("content"), diagnostics=[Diagnostic(message=str(n)) for n in range(25)])

    assert outcome.text.endswith("[info] 19\n[warn] 5 more remarks were left out.\n</harness>")
