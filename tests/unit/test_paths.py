"""The path from the root to a task, read off its id and off who owns its conversation (spec §1.1)."""

from __future__ import annotations

import pytest

from tarry.core.paths import path_of, root_of


@pytest.mark.parametrize(
    ("task_id", "path"),
    [
        ("c~n/g1/t1.0", ("c", "c~n/g1", "c~n/g1/t1.0")),
        ("c~n/g1/t1.0/k.a/k.#f0", ("c", "c~n/g1", "c~n/g1/t1.0", "c~n/g1/t1.0/k.a", "c~n/g1/t1.0/k.a/k.#f0")),
        ("c~n/k.report", ("c", "c~n/k.report")),
        ("c~n/g1/t1.0~2", ("c", "c~n/g1", "c~n/g1/t1.0~2")),
        ("task-x", ("task-x",)),
        ("task-x/k.a", ("task-x", "task-x/k.a")),
    ],
)
def test_path_holds_the_conversation_and_everything_below_it(task_id: str, path: tuple[str, ...]) -> None:
    assert path_of(task_id, {}) == path
    assert path[0] == root_of(task_id)


def test_path_goes_on_above_conversations_that_belong_to_tasks() -> None:
    owners = {"sub-2": "sub-1~m/g3/t1.0", "sub-1": "c~n/g1/t1.0"}

    assert path_of("sub-2~o/g1/t1.0", owners) == (
        *("c", "c~n/g1", "c~n/g1/t1.0"),
        *("sub-1", "sub-1~m/g3", "sub-1~m/g3/t1.0"),
        *("sub-2", "sub-2~o/g1", "sub-2~o/g1/t1.0"),
    )


def test_path_of_owners_that_close_a_circle_ends() -> None:
    owners = {"a": "b~n/g1/t1.0", "b": "a~n/g1/t1.0"}

    assert path_of("a~n/g1/t1.0", owners)[:2] == ("b", "b~n/g1")
