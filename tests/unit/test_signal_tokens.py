"""Tokens: names, keys, versions and migrations; what a sender is told of a value (spec §3.1, §3.2)."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Literal, NoReturn

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator, model_validator

from signals import Signal, SignalKey, Unreadable, judge, key_problem, value_problem
from signals.schema import MAX_REASON
from signals.tokens import MAX_KEY_BYTES, MAX_VALUE_BYTES


class CiResult(BaseModel):
    status: Literal["passed", "failed"]
    log_url: str = ""


CI = Signal("app.ci-result", 1, CiResult)
TOKENS: dict[str, Signal[Any]] = {"app.ci-result": CI, "app.flag": Signal("app.flag", 1, bool)}


def refusal(token: Signal[Any], value: Any, version: int | None = None) -> str:
    return judge({token.name: token}, token.name, value, version) or ""


@pytest.mark.parametrize("name", ["", "a/b", "x" * 201, "new\nline", "\ud800", "nul\0", "tarry.mine", 7, None])
def test_signal_with_an_unusable_name_cannot_be_declared(name: Any) -> None:
    with pytest.raises(ValueError, match="signal name"):
        Signal(name, 1, CiResult)


@pytest.mark.parametrize("name", ["a", "app.ci-result", "x" * 200, "Antwort für Ana", "質問", '"quoted"'])
def test_signal_with_a_plain_name_can_be_declared(name: str) -> None:
    assert Signal(name, 1, CiResult).key("k") == SignalKey(name, "k")


def test_reserved_names_are_for_what_is_built_in() -> None:
    assert Signal("tarry.settled", 1, CiResult, built_in=True).name == "tarry.settled"
    with pytest.raises(ValueError, match="reserved"):
        Signal("app.settled", 1, CiResult, built_in=True)


@pytest.mark.parametrize("version", [0, -1])
def test_versions_of_a_signal_count_from_one(version: int) -> None:
    with pytest.raises(ValueError, match="versions count from 1"):
        Signal("app.x", version, CiResult)


def test_value_is_read_typed_through_its_token() -> None:
    assert CI.read({"status": "passed", "log_url": "u"}, 1) == CiResult(status="passed", log_url="u")


class ApplicationLike(Exception):
    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.non_retryable = True


class Unprintable(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError("no text")


class Uncommon(BaseException):
    pass


RAISED: list[BaseException] = [
    ValueError("bad"),
    AssertionError("bad"),
    ApplicationLike("bad"),
    KeyError("bad"),
    RecursionError("bad"),
    ValueError("bad \ud800 " + "x" * 5_000),
    Unprintable(),
    StopIteration(),
    SystemExit(2),
    Uncommon("bad"),
]


@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: type(raised).__name__)
@pytest.mark.parametrize("where", ["field", "before", "after", "migration"])
def test_code_that_raises_at_a_value_makes_it_invalid(raised: BaseException, where: str) -> None:
    class Touchy(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n == 0 and where == "field":
                raise raised
            return n

        @model_validator(mode="before")
        @classmethod
        def first(cls, data: Any) -> Any:
            if data == {"n": 0} and where == "before":
                raise raised
            return data

        @model_validator(mode="after")
        def last(self) -> Touchy:
            if self.n == 0 and where == "after":
                raise raised
            return self

    def migrate(value: Any, version: int) -> Any:
        if value["n"] == 0 and where == "migration":
            raise raised
        return value

    token = Signal("app.touchy", 2, Touchy, migrate)
    version = 1 if where == "migration" else 2

    reason = refusal(token, {"n": 0}, version)

    assert 0 < len(reason) <= MAX_REASON
    reason.encode()
    assert refusal(token, {"n": 1}, version) == ""


def test_interrupt_from_the_keyboard_is_no_verdict() -> None:
    def migrate(value: Any, version: int) -> Any:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refusal(Signal("app.x", 2, CiResult, migrate), {}, 1)


class Status(BaseModel):
    state: Literal["passed", "failed"]


def to_status(value: Any, version: int) -> Any:
    if "status" in value:
        value["state"] = value.pop("status")
    return value


STATUS = Signal("app.status", 2, Status, to_status)


def test_value_of_an_older_version_is_read_in_the_current_shape() -> None:
    sent = {"status": "passed"}

    assert refusal(STATUS, sent, 1) == ""
    assert STATUS.read(sent, 1) == Status(state="passed")


def test_migration_that_works_in_place_leaves_what_was_sent() -> None:
    sent = {"status": "passed", "deep": [{}]}

    refusal(STATUS, sent, 1)

    assert sent == {"status": "passed", "deep": [{}]}


def test_omitted_version_means_the_current_one() -> None:
    assert refusal(STATUS, {"state": "passed"}, None) == ""
    assert refusal(STATUS, {"status": "passed"}, None) != ""


@pytest.mark.parametrize("version", [3, 10**30, 0, -1])
def test_version_that_is_not_known_here_is_invalid(version: int) -> None:
    assert f"version {version} is not known here" in refusal(STATUS, {"state": "passed"}, version)


def test_older_version_without_a_migration_is_invalid() -> None:
    assert "no migration from version 1 to 2" in refusal(Signal("app.x", 2, Status), {"state": "passed"}, 1)


@pytest.mark.parametrize("migrated", [None, {"state": "unheard"}, math.nan, Status(state="passed"), {1: 2}, "\ud800"])
def test_migration_to_something_that_does_not_fit_is_invalid(migrated: Any) -> None:
    token = Signal("app.x", 2, Status, lambda value, version: migrated)

    assert refusal(token, {}, 1) != ""


def test_migration_to_no_number_is_invalid_where_a_number_fits() -> None:
    token = Signal("app.share", 2, float, lambda value, version: math.nan)

    assert "nan is not a JSON number" in refusal(token, 1, 1)


def test_value_stored_before_a_deploy_is_read_migrated_after_it() -> None:
    before = Signal("app.status", 1, dict[str, str])
    stored = {"status": "failed"}
    assert refusal(before, stored) == ""

    assert STATUS.read(stored, 1) == Status(state="failed")


def test_signal_that_nobody_declared_is_invalid() -> None:
    assert judge(TOKENS, "app.ci-resutl", {}, None) == "no signal is named 'app.ci-resutl'"
    assert len(judge(TOKENS, "x" * 10_000, {}, None) or "") < MAX_REASON


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        {"log_url": json.loads("1e999")},
        {"status": "passed", "log_url": "\ud800"},
        b"bytes",
        {1: 2},
        {1, 2},
        object(),
    ],
)
def test_value_that_is_no_json_data_is_invalid(value: Any) -> None:
    assert "the value is not JSON data: " in (judge(TOKENS, "app.ci-result", value, None) or "")


def test_value_may_have_256_kib_and_no_byte_more() -> None:
    token = Signal("app.text", 1, str)

    assert refusal(token, "x" * (MAX_VALUE_BYTES - 2)) == ""
    assert "262145 bytes, 262144 are allowed" in refusal(token, "x" * (MAX_VALUE_BYTES - 1))
    assert value_problem("é" * (MAX_VALUE_BYTES // 2)) is not None


@given(
    st.sampled_from([*TOKENS, "other"]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.binary(max_size=3),
        lambda part: (
            st.lists(part, max_size=3)
            | st.dictionaries(st.sampled_from(["status", "flag", "count"]) | st.text(st.characters()), part, max_size=3)
        ),
        max_leaves=6,
    ),
    st.none() | st.integers(),
)
def test_any_value_at_all_is_judged_with_a_printable_reason(name: str, value: Any, version: int | None) -> None:
    reason = judge(TOKENS, name, value, version)

    if reason is None:
        TOKENS[name].read(value, version or 1)
    else:
        assert 0 < len(reason) <= MAX_REASON
        reason.encode()


ODD_KEYS = ["a/b", "a\nb", '"', "../x", "😀", " ", "k" * 5_000, "\0", "\u202e", "é", "e\u0301", "k" * MAX_KEY_BYTES]


@pytest.mark.parametrize("key", ODD_KEYS)
def test_any_text_of_at_most_8_kib_is_a_key(key: str) -> None:
    assert CI.key(key).problem is None


def test_keys_are_compared_exactly_and_stand_in_sets() -> None:
    assert len({CI.key(key) for key in [*ODD_KEYS, *ODD_KEYS]}) == len(ODD_KEYS)
    assert CI.key("done") == SignalKey(signal="app.ci-result", key="done")
    assert str(CI.key("a/b")) == "app.ci-result/a/b"


@pytest.mark.parametrize("key", ["", "k" * (MAX_KEY_BYTES + 1), "é" * MAX_KEY_BYTES, "k" * 100_000, "\ud800", 7, None])
def test_key_that_is_empty_too_long_or_no_text_says_so(key: Any) -> None:
    assert key_problem(key) is not None
    assert CI.key(key).problem == key_problem(key)


@pytest.mark.parametrize("name", ["", "a/b", "\ud800", None])
def test_key_of_a_signal_that_cannot_exist_says_so(name: Any) -> None:
    assert "signal name" in (SignalKey(name, "k").problem or "")


class Color(Enum):
    RED = "red"


class Rich(BaseModel):
    when: datetime
    color: Color
    log_url: str = Field(alias="logUrl")
    tags: set[int] = set()


def test_typed_value_is_dumped_as_the_json_that_is_read() -> None:
    token = Signal("app.rich", 1, Rich)
    value = Rich(when=datetime(2026, 1, 1, tzinfo=UTC), color=Color.RED, logUrl="u", tags={1})

    data = token.dump(value)

    assert data == {"when": "2026-01-01T00:00:00Z", "color": "red", "logUrl": "u", "tags": [1]}
    assert token.read(data, 1) == value


def test_plain_data_that_fits_is_dumped_as_it_is() -> None:
    plain: Any = {"status": "passed"}

    assert CI.dump(plain) == {"status": "passed"}


@pytest.mark.parametrize("value", [{"status": "odd"}, 7, "", None, object()])
def test_value_that_would_not_be_read_again_is_not_dumped(value: Any) -> None:
    with pytest.raises(Unreadable):
        CI.dump(value)


def test_json_schema_of_a_signal_is_its_models() -> None:
    assert CI.schema() == CiResult.model_json_schema()
