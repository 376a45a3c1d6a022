"""Waits on other tasks: which ends wake, by policy (spec §4.9)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from signals import Box, InvalidPark, Park, Wait, Wake, park_on, wake

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def by(*ended: str) -> Wake:
    return Wake(reason="tasks", ended=ended)


@pytest.mark.parametrize(
    ("policy", "ended", "expected"),
    [
        ("any", {}, None),
        ("any", {"b": False}, by("b")),
        ("any", {"b": False, "a": True}, by("a", "b")),
        ("any", {"other": False}, None),
        ("fail_fast", {"b": False}, None),
        ("fail_fast", {"b": True}, by("b")),
        ("fail_fast", {"a": False, "b": False}, by("a", "b")),
        ("all_settled", {"b": True}, None),
        ("all_settled", {"b": True, "a": False}, by("a", "b")),
    ],
)
def test_a_policy_says_which_ends_wake_and_the_wake_lists_all_that_are_over(
    policy: Any, ended: dict[str, bool], expected: Wake | None
) -> None:
    park = park_on(Wait(["a", "b"], policy), NOW)

    assert wake(park, Box(), NOW, ended) == expected


def test_a_wait_is_stored_with_its_checkpoint_and_since_when() -> None:
    assert park_on(Wait(("a",), "any", {"done": []}), NOW) == Park(
        since=NOW, on=("a",), policy="any", checkpoint={"done": []}
    )


@pytest.mark.parametrize(
    ("wait", "problem"),
    [
        ({"on": []}, "lists 1 to 256 tasks"),
        ({"on": ["x"] * 257}, "lists 1 to 256 tasks"),
        ({"on": ["x", "x"]}, "listed twice"),
        ({"on": "abc"}, "list or tuple of task ids"),
        ({"on": [""]}, "list or tuple of task ids"),
        ({"on": ["x"], "policy": "some"}, "policy must be one of any, fail_fast, all_settled"),
        ({"on": ["x"], "checkpoint": {1: 2}}, "the checkpoint"),
        ({"on": ["x"], "checkpoint": "x" * 300_000}, "the checkpoint take"),
    ],
)
def test_a_wait_that_could_not_end_is_refused(wait: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidPark, match=problem):
        park_on(Wait(**wait), NOW)
