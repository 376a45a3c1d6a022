"""Paths of agents: names, addresses and who keeps which for ever (spec §17.1, §17.2)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from tarry.core.subagents.paths import MAX_NAME, ROOT, Paths, absolute, depth, is_below, slug
from tests.support.trees import refusal

NAME = re.compile(r"[a-z0-9_-]{1,64}")


def reserved(*paths: str) -> Paths:
    known = Paths()
    for path in paths:
        known.reserve(path, f"agent-{path}")
    return known


@pytest.mark.parametrize("name", ["a", "review", "a_b-c", "-", "0", "x" * MAX_NAME])
def test_a_name_has_1_to_64_lower_case_letters_digits_hyphens_or_underscores(name: str) -> None:
    assert Paths().name(ROOT, name, "") == f"/root/{name}"


@pytest.mark.parametrize(
    "name", ["", "A", "Review", "a b", "a/b", "..", ".", "/root/a", "é", "ａ", "a\n", "a\0", "x" * (MAX_NAME + 1)]
)
def test_any_other_name_is_refused(name: str) -> None:
    assert refusal(lambda: Paths().name(ROOT, name, "")) == "bad_name"


def test_a_name_that_is_taken_is_refused_and_free_under_another_parent() -> None:
    known = reserved("/root/review", "/root/a")
    assert refusal(lambda: known.name(ROOT, "review", "")) == "name_taken"
    assert known.name("/root/a", "review", "") == "/root/a/review"


def test_equal_descriptions_get_suffixes_that_are_free() -> None:
    known = Paths()
    for _ in range(3):
        known.reserve(known.name(ROOT, None, "Look at it"), "x")
    assert list(known.agents) == ["/root/look-at-it", "/root/look-at-it-2", "/root/look-at-it-3"]
    known.reserve("/root/look-at-it-4", "taken by name")
    assert known.name(ROOT, None, "Look at it") == "/root/look-at-it-5"


def test_a_suffix_keeps_a_long_name_within_its_length() -> None:
    long = "x" * MAX_NAME
    assert reserved(f"/root/{long}").name(ROOT, None, long) == f"/root/{long[:-2]}-2"


@pytest.mark.parametrize(
    ("description", "name"),
    [
        ("Review the auth module!", "review-the-auth-module"),
        ("  snake_case  ", "snake_case"),
        ("../../etc/passwd", "etc-passwd"),
        ("確認する", "agent"),
        ("", "agent"),
        ("Ünïcode x", "n-code-x"),
    ],
)
def test_a_description_becomes_a_name(description: str, name: str) -> None:
    assert slug(description) == name


@given(st.text())
def test_every_description_becomes_a_name(description: str) -> None:
    assert NAME.fullmatch(slug(description))


@pytest.mark.parametrize(
    ("reference", "path"),
    [
        ("/root/review/auth", "/root/review/auth"),
        ("auth", "/root/review/auth"),
        ("./auth", "/root/review/auth"),
        ("../tests", "/root/tests"),
        ("../../root/tests", None),
        ("..", "/root"),
        (".", "/root/review"),
        ("auth/../auth//", "/root/review/auth"),
        ("/root", "/root"),
        ("../..", None),
        ("../../..", None),
        ("/", None),
        ("/etc", None),
        ("/root/../etc", None),
        ("/root/../root/review", None),
        ("", None),
        ("a b", None),
        ("AUTH", None),
        ("auth\0", None),
        ("x/" * 4_096, None),
    ],
)
def test_a_reference_is_absolute_or_relative_and_never_leaves_the_root(reference: str, path: str | None) -> None:
    if path is None:
        assert refusal(lambda: absolute(reference, "/root/review")) == "unknown_target"
    else:
        assert absolute(reference, "/root/review") == path


def test_an_agent_id_is_a_reference_from_everywhere() -> None:
    known = reserved("/root/review", "/root/review/auth")
    assert known.find("agent-/root/review/auth", "/root/elsewhere") == "/root/review/auth"
    assert refusal(lambda: known.find("agent-nobody", ROOT)) == "unknown_target"


def test_only_whole_parts_make_a_descendant() -> None:
    assert [is_below(path, "/root/a") for path in ("/root/a/b", "/root/a", "/root/ab", "/root")] == [True] + [False] * 3
    assert [depth(path) for path in ("/root", "/root/a", "/root/a/b")] == [0, 1, 2]


segments = st.sampled_from(["a", "b", "..", ".", "", "root", "A", "a b"])


class Reserving(RuleBasedStateMachine):
    """Names are asked for under any parent, by name and by description; references come from everywhere."""

    def __init__(self) -> None:
        super().__init__()
        self.known = Paths()
        self.given: dict[str, str] = {}

    @rule(data=st.data(), name=st.none() | st.sampled_from(["a", "b", "a-2"]), described=st.sampled_from(["a", "B!"]))
    def reserve(self, data: st.DataObject, name: str | None, described: str) -> None:
        parent = data.draw(st.sampled_from([ROOT, *self.given]))
        if name is not None and f"{parent}/{name}" in self.given:
            assert refusal(lambda: self.known.name(parent, name, described)) == "name_taken"
            return
        path = self.known.name(parent, name, described)
        assert path not in self.given
        assert path.rpartition("/")[0] == parent
        assert NAME.fullmatch(path.rpartition("/")[2])
        agent_id = f"agent-{len(self.given)}"
        self.known.reserve(path, agent_id)
        self.given[path] = agent_id

    @rule(data=st.data(), steps=st.lists(segments, max_size=5), is_absolute=st.booleans())
    def refer(self, data: st.DataObject, steps: list[str], is_absolute: bool) -> None:
        base = data.draw(st.sampled_from([ROOT, *self.given]))
        reference = "/" * is_absolute + "/".join(steps)
        if refusal(lambda: self.known.find(reference, base)) != "unknown_target":
            assert self.known.find(reference, base) in (ROOT, *self.given)

    @invariant()
    def every_agent_keeps_its_path_and_is_found_by_it(self) -> None:
        for path, agent_id in self.given.items():
            parent, _, name = path.rpartition("/")
            found = [self.known.find(*where) for where in ((path, "/root/x"), (name, parent), (agent_id, ROOT))]
            assert found == [path] * 3


TestReserving = Reserving.TestCase
TestReserving.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
