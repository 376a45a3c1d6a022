"""The arguments a model writes: read, validated, stored, sent back."""

from __future__ import annotations

import json
from datetime import date
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, SecretStr

from tarry.core.arguments import (
    MAX_ERROR_BYTES,
    BadArguments,
    normalise_calls,
    parameters_text,
    parse_arguments,
    sendable_arguments,
    settle_arguments,
    validate,
)
from tarry.core.messages import ToolCallRequest


class Write(BaseModel):
    model_config = ConfigDict(extra="forbid")

    path: str
    lines: list[int] = Field(default_factory=list)
    due: date | None = None
    limit: float = 1.5


@pytest.mark.parametrize("raw", ["", " \n\t", "null", "{}", " { } "])
def test_nothing_and_null_mean_no_arguments(raw: str) -> None:
    assert parse_arguments(raw) == {}


BAD = {
    '{"path": "a': ("not valid JSON", "line 1, column 10", "11 characters"),
    "{path: 1}": ("not valid JSON", "line 1, column 2", "{path: 1}"),
    '{"a": 1} trailing': ("not valid JSON", "Extra data"),
    "[]": ("expected a JSON object", "not a list"),
    '"5"': ("expected a JSON object", "not a text"),
    "5": ("expected a JSON object", "not a number"),
    "1.5": ("expected a JSON object", "not a number"),
    "true": ("expected a JSON object", "not a boolean"),
    '"{\\"path\\": \\"a\\"}"': ("expected a JSON object", "without quotes around it"),
    '{"a": NaN}': ("NaN is no JSON number",),
    '{"a": [-Infinity]}': ("-Infinity is no JSON number",),
    '{"a": 1e999}': ("the number 1e999 is too large",),
    '{"a": ' + "9" * 5000 + "}": ("not valid JSON", "digits"),
    '{"a": ' + "[" * 200 + "]" * 200 + "}": ("nested deeper than 100 levels",),
    '{"a": ' + "[" * 100_000: ("nested too deeply",),
}


@pytest.mark.parametrize("raw", BAD, ids=lambda raw: raw[:30])
def test_unreadable_arguments_say_what_was_expected(raw: str) -> None:
    with pytest.raises(BadArguments) as caught:
        parse_arguments(raw)

    for part in BAD[raw]:
        assert part in caught.value.text


def test_lone_surrogates_are_replaced_and_valid_pairs_kept() -> None:
    raw = '{"a\\ud800": ["\\ud83c\\udf78", "x\\udc00y", "\ud800"]}'

    assert parse_arguments(raw) == {"a\ufffd": ["🍸", "x\ufffdy", "\ufffd"]}


@given(st.text(st.characters()) | st.from_regex(r"[\[\]{}\",:0-9a-zNI\\. -]*"))
def test_any_text_is_read_or_refused_and_always_sent_back_as_an_object(raw: str) -> None:
    sent = json.loads(sendable_arguments(raw))

    try:
        assert sent == parse_arguments(raw)
    except BadArguments as error:
        refusal = error.text
        assert list(sent) == ["unreadable_arguments"]
        assert 0 < len(refusal.encode()) <= MAX_ERROR_BYTES


def test_clean_arguments_are_sent_back_to_the_letter() -> None:
    raw = '{ "b" : 1,\n "a": "\\u00e9" }'

    assert sendable_arguments(raw) == raw


def test_large_unreadable_arguments_are_sent_back_as_their_head() -> None:
    sent = sendable_arguments('{"content": "' + "x" * 100_000)

    assert len(sent) < 3_000
    assert json.loads(sent)["unreadable_arguments"].startswith('{"content": "xxx')


def test_a_misfit_names_every_field() -> None:
    with pytest.raises(BadArguments) as caught:
        validate({"lines": [1, "two"], "due": "soon", "colour": 3}, Write)

    assert caught.value.text.splitlines() == [
        "path: required, but missing",
        "lines.1: Input should be a valid integer, unable to parse string as an integer; got 'two'",
        "due: Input should be a valid date or datetime, input is too short; got 'soon'",
        "colour: there is no such parameter",
    ]


def test_text_about_many_misfits_stays_short() -> None:
    with pytest.raises(BadArguments) as caught:
        validate({f"field_{n}": "x" * 10_000 for n in range(500)}, Write)

    assert len(caught.value.text.encode()) <= MAX_ERROR_BYTES


def test_a_validator_that_breaks_is_a_misfit_too() -> None:
    def broken(value: str) -> str:
        raise KeyError(value)

    class Broken(BaseModel):
        path: Annotated[str, AfterValidator(broken)]

    with pytest.raises(BadArguments, match="KeyError"):
        validate({"path": "a"}, Broken)


def test_stored_arguments_are_plain_data_with_defaults_filled_in() -> None:
    stored = settle_arguments({"path": "a", "due": "2026-03-01", "lines": ["1"]}, Write)

    assert stored == {"path": "a", "lines": [1], "due": "2026-03-01", "limit": 1.5}
    assert validate(stored, Write) == Write(path="a", lines=[1], due=date(2026, 3, 1))


def test_stored_arguments_go_by_the_names_the_model_knows() -> None:
    class Move(BaseModel):
        source: str = Field(alias="from")
        times: int = 1

    assert settle_arguments({"from": "a"}, Move) == {"from": "a", "times": 1}
    assert parameters_text(Move) == "Parameters: from (required), times."


def test_arguments_that_would_change_when_read_again_are_stored_as_they_came() -> None:
    def twice(value: int) -> int:
        return 2 * value

    class Odd(BaseModel):
        token: SecretStr = SecretStr("")
        wait: float = float("inf")
        amount: Annotated[int, AfterValidator(twice)] = 0

    given_arguments: list[dict[str, Any]] = [{"token": "s3cret"}, {"amount": 2}, {}]

    assert [settle_arguments(arguments, Odd) for arguments in given_arguments] == given_arguments


@given(st.dictionaries(st.sampled_from(["path", "lines", "due", "limit"]), st.none() | st.integers() | st.text()))
def test_what_is_stored_always_fits_again_and_means_the_same(arguments: dict[str, Any]) -> None:
    try:
        stored = settle_arguments(arguments, Write)
    except BadArguments:
        return

    assert validate(stored, Write) == validate(arguments, Write)
    assert settle_arguments(stored, Write) == stored


def test_parameters_are_named_with_what_is_required() -> None:
    class Nothing(BaseModel):
        pass

    assert parameters_text(Write) == "Parameters: path (required), lines, due, limit."
    assert parameters_text(Nothing) == "It takes no parameters."


def requests(*call_ids: str) -> list[ToolCallRequest]:
    return [ToolCallRequest(call_id=call_id, name="look", arguments="{}") for call_id in call_ids]


@pytest.mark.parametrize(
    ("given_ids", "settled"),
    [
        (("a", "b"), ("a", "b")),
        (("a", "a", "a"), ("a", "a_2", "a_3")),
        (("", " ", ""), ("call_1", "call_2", "call_3")),
        (("", "call_1"), ("call_1_2", "call_1")),
        (("a", "a", "a_2"), ("a", "a_3", "a_2")),
        (("\ud800", "\udfff"), ("\ufffd", "\ufffd_2")),
    ],
)
def test_missing_and_repeated_call_ids_are_replaced_in_place(
    given_ids: tuple[str, ...], settled: tuple[str, ...]
) -> None:
    assert tuple(call.call_id for call in normalise_calls(requests(*given_ids))) == settled


@given(st.lists(st.sampled_from(["", "a", "a_2", "a_3", "call_1", "call_2", "b"]), max_size=12))
def test_call_ids_of_a_response_end_up_unique_and_settle_once(given_ids: list[str]) -> None:
    settled = normalise_calls(requests(*given_ids))

    assert len({call.call_id for call in settled}) == len(given_ids)
    assert all(call.call_id for call in settled)
    assert normalise_calls(settled) == settled
