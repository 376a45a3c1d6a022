"""A tree of agents: started, settled, read, stopped (spec §17)."""

from __future__ import annotations

import pytest

from tarry.core.subagents.orders import AbortConversation, BeginTurn, TellRoot
from tarry.core.subagents.refusing import Refused
from tarry.core.subagents.tree import Tree
from tests.support.trees import Bench


def test_a_started_agent_begins_when_the_root_was_told_of_its_tree() -> None:
    bench = Bench()
    started = bench.start("review", prompt="look")
    assert (started.path, started.state, started.mode) == ("/root/review", "running", "background")
    assert [type(order) for order in bench.tree.due()] == [TellRoot]
    told, begun = bench.work()
    assert isinstance(told, TellRoot)
    assert isinstance(begun, BeginTurn)
    assert [message.text for message in begun.messages] == ["look"]
    assert begun.birth is not None
    assert begun.birth.caller.conversation_id == "chat"
    assert bench.state("/root/review") == "running"


def test_a_turn_that_has_ended_is_read_once_by_the_parent() -> None:
    bench = Bench()
    bench.start("review")
    bench.end("/root/review", "all is well")
    call = bench.caller()
    updates = bench.read(call)
    assert [(one.path, one.status, one.text) for one in updates.completions] == [
        ("/root/review", "done", "all is well")
    ]
    assert bench.read(call) == updates
    bench.read_done(call)
    again = bench.read()
    assert (again.completions, again.already_read) == ((), ("/root/review",))


def test_a_stop_at_the_root_ends_what_runs_and_what_queues() -> None:
    bench = Bench(limit=1)
    bench.start("first")
    bench.start("second")
    bench.work()
    bench.stopped()
    aborts = [order.agent_id for order in bench.tree.orders if isinstance(order, AbortConversation)]
    assert aborts == [bench.id("/root/first")]
    assert [bench.state(f"/root/{name}") for name in ("first", "second")] == ["stopping", "idle"]
    bench.end("/root/first", None, reason="aborted")
    assert [(one.path, one.reason) for one in bench.read(bench.caller(run=2)).completions] == [
        ("/root/second", "aborted"),
        ("/root/first", "aborted"),
    ]
    with pytest.raises(Refused) as refused:
        bench.start("third")
    assert refused.value.refusal.code == "stopped"


def test_the_state_comes_through_a_run_of_its_workflow_as_it_is() -> None:
    bench = Bench(limit=1)
    bench.start("first")
    bench.start("second")
    bench.work()
    bench.send("first")
    assert Tree.model_validate(bench.tree.model_dump(mode="json")) == bench.tree
