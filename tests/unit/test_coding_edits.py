"""Edits: each found once in the text as it was, and everything else left byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.coding.edits import MAX_DIFF_LINES, Edit, EditArguments, EditError, apply_edits, difference
from tarry.core.arguments import settle_arguments

BOM = "\ufeff"


def edits(*pairs: tuple[str, str]) -> list[Edit]:
    return [Edit.model_validate({"oldText": old, "newText": new}) for old, new in pairs]


@pytest.mark.parametrize(
    ("text", "pairs", "result"),
    [
        ("a b c", [("b", "B")], "a B c"),
        ("a b c", [("c", "1"), ("a", "2")], "2 b 1"),
        ("a b", [("a", "b"), ("b", "a")], "b a"),
        ("ab", [("a", "x"), ("b", "y")], "xy"),
        ("a\nb\nc\n", [("b\n", "")], "a\nc\n"),
        ("a\r\nb\r\nc\r\n", [("a\nb", "x\ny\nz")], "x\r\ny\r\nz\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", [("b\r\n", "")], "a\r\nc\r\n"),
        ("a\nb\r\nc\r\n", [("b\nc", "d\ne")], "a\nd\ne\r\n"),
        ("a\r\nb\nc\n", [("c", "d\ne")], "a\r\nb\nd\r\ne\n"),
        ("one\r\ntwo\nthree", [("three", "3")], "one\r\ntwo\n3"),
        (f"{BOM}a\r\nb", [("b", "c")], f"{BOM}a\r\nc"),
        (f"{BOM}a", [("a", "b")], f"{BOM}b"),
        ("é\n日本", [("日本", "語")], "é\n語"),
    ],
)
def test_edits_are_matched_in_the_original_and_the_rest_stays(
    text: str, pairs: list[tuple[str, str]], result: str
) -> None:
    assert apply_edits(text, edits(*pairs)) == result


@pytest.mark.parametrize(
    ("text", "pairs", "says"),
    [
        ("a b", [("x", "y")], "edits[0].oldText is not in the file"),
        ("a b", [("a", "b"), ("y", "z")], "edits[1].oldText is not in the file"),
        ("a b a", [("a", "b")], "edits[0].oldText is in the file more than once"),
        ("aaa", [("aa", "b")], "edits[0].oldText is in the file more than once"),
        ("abc", [("ab", "x"), ("bc", "y")], "edits[0] and edits[1] overlap"),
        ("abc", [("bc", "y"), ("abc", "x")], "edits[1] and edits[0] overlap"),
        ("abc", [("b", "y"), ("b", "y")], "edits[0] and edits[1] overlap"),
        ("abc", [("", "y")], "edits[0].oldText is empty"),
        ("", [("a", "y")], "edits[0].oldText is not in the file"),
        ("abc", [("b", "b")], "The edits change nothing"),
        ("a\r\nb", [("a\nb", "a\nb")], "The edits change nothing"),
    ],
)
def test_edit_that_is_not_clear_changes_nothing_and_says_which(
    text: str, pairs: list[tuple[str, str]], says: str
) -> None:
    with pytest.raises(EditError) as raised:
        apply_edits(text, edits(*pairs))

    assert says in str(raised.value)


ONE = {"oldText": "a", "newText": "b"}


@pytest.mark.parametrize(
    "sent",
    [
        {"path": "f", "edits": [ONE]},
        {"path": "f", "edits": ONE},
        {"path": "f", "edits": json.dumps([ONE])},
        {"path": "f", "edits": json.dumps(ONE)},
        {"path": "f", **ONE},
    ],
)
def test_edits_in_the_forms_that_models_send_are_stored_as_a_list(sent: dict[str, Any]) -> None:
    assert settle_arguments(sent, EditArguments) == {"path": "f", "edits": [ONE]}


@pytest.mark.parametrize(
    "sent",
    [
        {"path": "f"},
        {"path": "f", "edits": []},
        {"path": "f", "edits": "a to b"},
        {"path": "f", "edits": "[" * 100_000},
        {"path": "f", "edits": [{"oldText": "a"}]},
        {"path": "f", "edits": [ONE], "newText": "x"},
        {"path": "f", "oldText": "a"},
        {"path": "f", "edits": [{**ONE, "all": True}]},
    ],
)
def test_arguments_that_could_mean_something_else_are_refused(sent: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"edits|newText"):
        settle_arguments(sent, EditArguments)


LINES = st.lists(st.sampled_from(["", "a", "bb", "ccc", "dd\r"]), min_size=1, max_size=12).map("\n".join)


@given(before=LINES, marks=st.lists(st.integers(0, 9), unique=True, min_size=1), after=LINES, news=st.data())
def test_any_edits_change_their_places_and_nothing_else(
    before: str, marks: list[int], after: str, news: st.DataObject
) -> None:
    made = {mark: news.draw(st.sampled_from(["", "x", "y\nz"])) for mark in marks}
    text = before + "".join(f"<{mark}>\r\n{mark}\n" for mark in sorted(marks)) + after

    result = apply_edits(text, edits(*((f"<{mark}>\n{mark}", new) for mark, new in made.items())))

    plain = before + "".join(f"{made[mark]}\n" for mark in sorted(marks)) + after
    assert result.replace("\r\n", "\n") == plain.replace("\r\n", "\n")
    assert result.startswith(before)
    assert result.endswith(after)


def test_difference_tells_the_first_line_a_diff_and_a_patch() -> None:
    told = difference("f.txt", "1\n2\n3\n4\n5\n6", "1\n2\n3\n4\nfive\n6")

    assert told == {
        "first_changed_line": 5,
        "diff": "@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n\\ No newline at end of file\n",
        "patch": (
            "--- a/f.txt\n+++ b/f.txt\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-5\n+five\n 6\n\\ No newline at end of file\n"
        ),
    }


@pytest.mark.parametrize(("before", "after", "first"), [("", "a", 1), ("a\n", "a\nb\n", 2), ("a\nb\n", "a\n", 2)])
def test_first_changed_line_is_the_first_that_is_not_the_same_in_both(before: str, after: str, first: int) -> None:
    assert difference("f", before, after)["first_changed_line"] == first


def test_difference_of_a_long_text_has_no_patch_and_a_long_patch_is_cut() -> None:
    long = "".join(f"{number}\n" for number in range(MAX_DIFF_LINES + 1))

    assert difference("f", long, f"{long}x") == {"diff": "", "patch": "", "first_changed_line": MAX_DIFF_LINES + 2}
    cut = difference("f", "", "x" * 70 + "\n" + "line\n" * 9_000)
    assert cut["patch"].endswith("+line\n[…]\n")
    assert len(json.dumps(cut)) < 60_000
