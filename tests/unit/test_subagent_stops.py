"""Stops: of one agent and all below it, of a whole tree, and what starts no more (spec §17.7)."""

from __future__ import annotations

import pytest

from tarry.core.subagents.orders import AbortConversation, Aborted, BeginTurn, Begun, Grant, TellCall
from tarry.core.subagents.protocol import OWN, StopBelow
from tests.support.trees import NOW, Bench, refusal


def aborted(bench: Bench) -> list[str]:
    ids = [order.agent_id for order in bench.tree.orders if isinstance(order, AbortConversation)]
    return [bench.tree.agents[agent_id].path for agent_id in ids]


def states(bench: Bench) -> dict[str, str]:
    return {row.path: row.state for row in bench.tree.listing().agents}


def late(bench: Bench, path: str) -> str:
    """How a start is refused that the stopped run of an agent still asks for."""
    return refusal(lambda: bench.start("late", by=bench.caller(path)))


def levels(limit: int = 100) -> Bench:
    """Three levels with a fan-out of four; all work."""
    bench = Bench(limit=limit)
    for first in "abcd":
        bench.start(first)
        for second in "abcd":
            bench.start(second, by=bench.caller(f"/root/{first}"))
            for third in "abcd":
                bench.start(third, by=bench.caller(f"/root/{first}/{second}"))
    bench.work()
    return bench


def test_a_stop_at_the_root_stops_all_levels_and_nothing_starts_afterwards() -> None:
    bench = levels()
    bench.tree.rested(bench.notice("/root/a/b/c", 1, waits_for="a person"), NOW)
    bench.stopped(run=1)
    assert len(aborted(bench)) == 4 + 16 + 64
    assert set(states(bench).values()) == {"stopping"}
    assert {late(bench, path) for path in ("/root", "/root/a", "/root/a/b")} == {"stopped"}
    for path in states(bench):
        bench.end(path, None, reason="aborted")
    assert (set(states(bench).values()), bench.tree.permits.held, bench.work()) == ({"idle"}, [], [])
    assert {late(bench, path) for path in ("/root", "/root/a", "/root/a/b")} == {"stopped"}


def test_a_queued_start_that_is_stopped_never_begins_and_is_told_of_once() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.start("b", prompt="go")
    bench.work()
    bench.stopped()
    bench.end("/root/a", None, reason="aborted")
    assert [order for order in bench.work() if isinstance(order, BeginTurn)] == []
    read = bench.read(bench.caller(run=2)).completions
    assert [(one.path, one.reason) for one in read] == [("/root/b", "aborted"), ("/root/a", "aborted")]
    # What it was to begin with waits in its mailbox, for whoever wants it after all.
    assert bench.follow_up("b", by=bench.caller(run=2)).messages == 1


def test_a_permit_that_a_stop_frees_is_not_given_to_what_the_stop_ends() -> None:
    bench = Bench(limit=1)
    for name in "abc":
        bench.start(name)
    bench.stopped()
    assert ([order.kind for order in bench.work()], bench.tree.permits.held) == (["tell-root"], [])


def test_a_stop_of_an_earlier_run_that_comes_late_leaves_what_a_later_run_started() -> None:
    bench = Bench()
    bench.start("old", by=bench.caller(run=1))
    bench.start("new", by=bench.caller(run=2))
    bench.work()
    bench.stopped(run=1)
    assert states(bench) == {"/root/old": "stopping", "/root/new": "running"}


def test_a_stop_of_an_earlier_run_leaves_a_turn_that_a_later_run_has_joined() -> None:
    bench = Bench()
    bench.start("a", by=bench.caller(run=1))
    bench.work()
    bench.follow_up("a", "and this", by=bench.caller(run=2))
    bench.stopped(run=1)
    assert states(bench) == {"/root/a": "running"}


def test_a_stop_is_heard_once() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    for _ in range(2):
        bench.stopped()
    assert aborted(bench) == ["/root/a"]
    assert [event.kind for event in bench.tree.events.newest].count("stop") == 1


def test_a_submission_that_is_under_way_is_stopped_right_after_it() -> None:
    bench = Bench()
    bench.start("a")
    (root,) = bench.tree.due()
    bench.tree.done(root.order_id, None, NOW)
    (begin,) = bench.tree.due()
    bench.tree.take(begin)
    bench.stopped()
    assert (bench.tree.due(), bench.state("/root/a")) == ([], "stopping")
    bench.tree.done(begin.order_id, Begun(), NOW)
    assert [order.kind for order in bench.tree.due()] == ["abort"]


def test_what_was_to_join_a_stopped_turn_waits_again() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.follow_up("a", "too late")
    bench.stopped()
    bench.end("/root/a", None, reason="aborted")
    assert bench.tree.agents[bench.id("/root/a")].mailbox.unclaimed == 1
    assert len(bench.read(bench.caller(run=2)).completions) == 1


def test_what_joined_a_stopped_turn_and_was_not_placed_waits_again_ahead_of_what_came_later() -> None:
    bench = Bench()
    turn_id = bench.start("a").turn_id
    bench.work()
    bench.follow_up("a", "joined")
    join = next(order for order in bench.tree.due() if isinstance(order, BeginTurn))
    bench.tree.take(join)
    bench.tree.done(join.order_id, Begun(is_queued=True), NOW)
    assert bench.tree.listing().agents[0].pending == 1
    bench.interrupt("a")
    bench.follow_up("a", "later")
    bench.work()
    for request_id, was_placed in ((f"{turn_id}.2", False), (turn_id, True)):
        bench.settle("/root/a", None, request_id=request_id, reason="aborted", was_placed=was_placed)
    (order,) = [one for one in bench.work() if isinstance(one, BeginTurn)]
    assert [one.text for one in order.messages] == ["joined", "later"]


def test_what_joined_a_turn_and_was_placed_is_consumed_though_the_turn_was_stopped() -> None:
    bench = Bench()
    turn_id = bench.start("a").turn_id
    bench.work()
    bench.follow_up("a", "joined")
    bench.work()
    bench.interrupt("a")
    bench.work()
    for request_id in (f"{turn_id}.2", turn_id):
        bench.settle("/root/a", None, request_id=request_id, reason="aborted")
    assert bench.tree.listing().agents[0].pending == 0


def test_what_is_stopped_cleans_up_without_a_permit() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.start("b")
    bench.work()
    bench.rested("/root/a")
    bench.work()
    bench.interrupt("a")
    bench.wants("/root/a")
    assert [order.kind for order in bench.work() if isinstance(order, Grant)] == ["grant"]
    assert bench.tree.permits.held == [bench.id("/root/b") + ".1"]


def test_a_turn_that_waits_for_a_permit_to_go_on_is_let_go_on_to_clean_up() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.start("b")
    bench.work()
    bench.rested("/root/a")
    bench.work()
    bench.wants("/root/a")
    bench.interrupt("a")
    assert [order.kind for order in bench.tree.due()] == ["grant", "abort"]
    assert (bench.tree.permits.queued, len(bench.tree.permits.held)) == (0, 1)


def test_an_interrupt_stops_an_agent_and_all_below_it_and_nobody_else() -> None:
    bench = levels()
    assert bench.interrupt("a/b").state == "stopping"
    stopping = [path for path, state in states(bench).items() if state == "stopping"]
    assert stopping == ["/root/a/b", *(f"/root/a/b/{name}" for name in "abcd")]


@pytest.mark.parametrize(
    ("by", "target", "code"),
    [
        ("/root", "a", ""),
        ("/root", "a/b", ""),
        ("/root/a", "/root/a/b", ""),
        ("/root/a", "/root", "not_a_descendant"),
        ("/root/a/b", "..", "not_a_descendant"),
        ("/root/a", ".", "not_a_descendant"),
        ("/root/a", "../c", "not_a_descendant"),
        ("/root/a", "nobody", "unknown_target"),
    ],
)
def test_only_descendants_are_interrupted(by: str, target: str, code: str) -> None:
    bench = levels()
    assert refusal(lambda: bench.interrupt(target, bench.caller(by))) == code
    if code:
        assert aborted(bench) == []


def test_a_second_interrupt_and_one_of_an_ended_agent_do_nothing() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    assert [bench.interrupt("a").state for _ in range(2)] == ["stopping", "stopping"]
    assert aborted(bench) == ["/root/a"]
    bench.end("/root/a", None, reason="aborted")
    assert (bench.interrupt("a").state, bench.state("/root/a"), bench.work()) == ("idle", "idle", [])


def test_an_interrupt_that_comes_again_does_not_stop_a_later_turn() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    call = bench.caller()
    bench.interrupt("a", call)
    bench.end("/root/a", None, reason="aborted")
    bench.follow_up("a", "again")
    bench.work()
    assert bench.interrupt("a", call).state == "idle"
    assert bench.state("/root/a") == "running"


def test_interrupt_follow_up_interrupt_at_once_leave_one_completion_for_each_turn() -> None:
    bench = Bench(limit=2)
    bench.start("a")
    bench.work()
    bench.interrupt("a")
    accepted = bench.follow_up("a", "go on")
    assert (accepted.state, accepted.messages) == ("running", 1)
    assert bench.interrupt("a").state == "stopping"
    bench.end("/root/a", None, reason="aborted")
    read = bench.read().completions
    assert [(one.turn_id[-1], one.reason) for one in read] == [("2", "aborted"), ("1", "aborted")]
    assert (bench.state("/root/a"), bench.tree.permits.held) == ("idle", [])


def test_a_follow_up_to_a_turn_that_is_being_stopped_begins_after_it() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.interrupt("a")
    bench.follow_up("a", "then this")
    assert [order.kind for order in bench.work()] == ["abort"]
    bench.settle("/root/a", None, reason="aborted")
    begins = [order for order in bench.work() if isinstance(order, BeginTurn)]
    assert [[one.text for one in order.messages] for order in begins] == [["then this"]]
    assert bench.state("/root/a") == "running"


def test_who_interrupts_is_told_when_all_of_it_is_over() -> None:
    bench = Bench(limit=10)
    bench.start("a")
    bench.start("b", by=bench.caller("/root/a"))
    bench.work()
    call = bench.caller()
    bench.interrupt("a", call, key="over")
    bench.work()
    bench.settle("/root/a", None, reason="aborted")
    assert [order for order in bench.work() if isinstance(order, TellCall)] == []
    bench.settle("/root/a/b", None, reason="aborted")
    tells = [order for order in bench.work() if isinstance(order, TellCall)]
    assert [(order.task_id, order.key) for order in tells] == [(call.task_id, "over")]
    assert bench.interrupt("a", call, key="over").state == "idle"


def test_a_turn_whose_conversation_is_gone_ends_as_lost_when_it_is_stopped() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.interrupt("a")
    (order,) = bench.tree.due()
    bench.tree.done(order.order_id, Aborted(is_gone=True), NOW)
    assert [(one.reason, one.detail) for one in bench.read().completions] == [("lost", "its conversation is gone")]
    assert bench.tree.permits.held == []


def test_a_late_call_of_a_run_that_was_stopped_starts_nothing_when_its_turn_is_over() -> None:
    bench = Bench(limit=10)
    bench.start("a")
    bench.work()
    bench.start("b", by=bench.caller("/root/a", run=1))
    bench.work()
    bench.interrupt("a")
    bench.end("/root/a", None, reason="aborted")
    assert refusal(lambda: bench.start("late", by=bench.caller("/root/a", run=1))) == "stopped"
    bench.end("/root/a/b", None, reason="aborted")
    bench.follow_up("a", "again")
    bench.work()
    assert refusal(lambda: bench.start("fine", by=bench.caller("/root/a", run=2))) == ""


def test_a_stop_of_a_conversation_that_nobody_knows_changes_nothing() -> None:
    bench = levels()
    before = bench.tree.model_copy(deep=True)
    bench.tree.stopped(StopBelow(conversation_id="other", run=1), NOW)
    assert bench.tree == before


def test_a_call_stops_the_agent_that_it_has_started_itself_and_no_other() -> None:
    bench = Bench()
    first, second, third = (bench.caller(call=f"t9.{slot}") for slot in range(3))
    for name, by in (("a", first), ("b", second)):
        bench.start(name, by=by)
    bench.work()
    assert bench.interrupt(OWN, by=first).path == "/root/a"
    assert aborted(bench) == ["/root/a"]
    assert bench.interrupt(OWN, by=first).path == "/root/a"
    assert refusal(lambda: bench.interrupt(OWN, by=third)) == "unknown_target"
    assert states(bench)["/root/b"] == "running"
