"""What a conversation tells its tree of a Stop, also when it learns late that it has one (spec §17.11)."""

from __future__ import annotations

from tarry.core.commits import TellWorkflow
from tarry.core.subagents.below import Below
from tarry.core.subagents.protocol import STOPPED

TREE = "root~nonce/agents"


def told(run: int) -> list[TellWorkflow]:
    value = {"conversation_id": "root", "run": run}
    return [TellWorkflow(workflow_id=TREE, name=STOPPED, value=value)]


def test_without_a_tree_a_stop_tells_nobody() -> None:
    assert Below().stop("root", 3) == []


def test_each_stop_is_told_with_the_number_of_the_newest_run() -> None:
    below = Below(tree=TREE)
    assert [below.stop("root", 3), below.stop("root", 3), below.stop("root", 5)] == [told(3), told(3), told(5)]


def test_a_stop_that_came_before_the_tree_was_known_is_told_then() -> None:
    below = Below()
    below.stop("root", 3)
    assert below.learn("root", TREE) == told(3)


def test_learning_of_the_tree_tells_it_nothing_when_no_run_was_stopped() -> None:
    assert Below().learn("root", TREE) == []


def test_what_is_learnt_again_is_nothing_new() -> None:
    below = Below(tree=TREE)
    below.stop("root", 3)
    assert below.learn("root", TREE) == []
