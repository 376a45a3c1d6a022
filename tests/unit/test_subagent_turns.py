"""Turns: how they queue, begin, rest, go on, are joined and end (spec §17.4, §17.6)."""

from __future__ import annotations

import pytest

from tarry.core.subagents.definition import Snapshot, SubagentSettings
from tarry.core.subagents.orders import BeginTurn, Begun, FetchTurn, Grant, Order
from tests.support.trees import NOW, Bench, refusal


def begun(orders: list[Order]) -> list[str]:
    return [order.path for order in orders if isinstance(order, BeginTurn)]


def grants(orders: list[Order]) -> list[str]:
    return [order.notice.generation_id for order in orders if isinstance(order, Grant)]


def under_way(bench: Bench) -> BeginTurn:
    """The next submission, taken and not acknowledged."""
    for order in bench.tree.due():
        if not isinstance(order, BeginTurn):
            bench.tree.done(order.order_id, None, NOW)
    (order,) = bench.tree.due()
    taken = bench.tree.take(order)
    assert isinstance(taken, BeginTurn)
    return taken


# Permits.


def test_top_level_starts_queue_and_begin_in_order() -> None:
    bench = Bench(limit=2)
    assert [bench.start(name).state for name in "abcd"] == ["running", "running", "queued", "queued"]
    assert begun(bench.work()) == ["/root/a", "/root/b"]
    bench.settle("/root/b")
    assert begun(bench.work()) == ["/root/c"]
    bench.settle("/root/a")
    assert begun(bench.work()) == ["/root/d"]


def test_nested_work_fails_at_capacity_and_leaves_nothing() -> None:
    bench = Bench(limit=2)
    bench.start("a")
    bench.start("b")
    bench.work()
    before = bench.tree.model_copy(deep=True)
    assert refusal(lambda: bench.start("c", by=bench.caller("/root/a"))) == "capacity"
    assert bench.tree == before


def test_a_chain_within_one_permit_is_refused_and_not_a_deadlock() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.work()
    assert refusal(lambda: bench.start("b", by=bench.caller("/root/a"))) == "capacity"
    bench.end("/root/a")
    assert bench.state("/root/a") == "idle"


def test_a_nested_follow_up_fails_at_capacity_and_claims_nothing() -> None:
    bench = Bench(limit=2)
    bench.start("a")
    bench.work()
    caller = bench.caller("/root/a")
    bench.start("b", by=caller)
    bench.end("/root/a/b")
    bench.start("c")
    bench.work()
    bench.send("b", by=bench.caller("/root/a"))
    assert refusal(lambda: bench.follow_up("b", by=bench.caller("/root/a"))) == "capacity"
    assert refusal(lambda: bench.follow_up("b", "more", by=bench.caller("/root/a"))) == "capacity"
    assert bench.tree.agents[bench.id("/root/a/b")].mailbox.unclaimed == 1


def test_a_turn_that_rests_gives_its_permit_to_the_next() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.start("b")
    bench.work()
    bench.tree.rested(bench.notice("/root/a", 1, waits_for="a person"), NOW)
    assert begun(bench.work()) == ["/root/b"]
    (waiting, running) = bench.tree.listing().agents
    assert (waiting.state, waiting.waits_for, running.state) == ("waiting", "a person", "running")


def test_a_woken_turn_waits_for_a_permit_ahead_of_starts() -> None:
    bench = Bench(limit=1)
    for name in "abc":
        bench.start(name)
    bench.work()
    bench.rested("/root/a")
    bench.work()
    bench.wants("/root/a")
    assert (grants(bench.work()), bench.state("/root/a")) == ([], "waiting")
    bench.settle("/root/b")
    carried = bench.work()
    assert (len(grants(carried)), begun(carried)) == (1, [])
    assert bench.tree.permits.held == [bench.id("/root/a") + ".1"]


def test_a_nested_turn_that_was_woken_queues_where_a_nested_start_is_refused() -> None:
    bench = Bench(limit=2)
    bench.start("a")
    bench.work()
    bench.start("n", by=bench.caller("/root/a"))
    bench.work()
    bench.rested("/root/a/n")
    bench.start("b")
    bench.work()
    bench.wants("/root/a/n")
    assert grants(bench.work()) == []
    bench.settle("/root/b")
    assert len(grants(bench.work())) == 1


def test_late_and_repeated_notices_change_nothing() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.start("b")
    bench.work()
    bench.rested("/root/a", 2)
    bench.work()
    bench.wants("/root/a", 2)
    bench.settle("/root/b")
    bench.work()
    before = bench.tree.model_copy(deep=True)
    bench.rested("/root/a", 1)
    bench.rested("/root/a", 2)
    bench.wants("/root/a", 1)
    assert bench.tree == before


def test_a_wish_that_overtakes_its_rest_is_granted_and_the_permit_was_never_free() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.start("b")
    bench.work()
    bench.wants("/root/a", 1)
    bench.rested("/root/a", 1)
    assert (len(grants(bench.work())), bench.state("/root/b")) == (1, "queued")


def test_a_wish_that_is_repeated_is_granted_again_by_the_same_permit() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.work()
    bench.rested("/root/a")
    for _ in range(2):
        bench.wants("/root/a")
        assert len(grants(bench.work())) == 1
    assert len(bench.tree.permits.held) == 1


def test_a_late_notice_of_a_run_of_an_earlier_turn_frees_nothing() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.work()
    bench.rested("/root/a")
    bench.wants("/root/a")
    bench.end("/root/a")
    bench.follow_up("a", "again")
    bench.work()
    bench.rested("/root/a", 7)
    assert (bench.state("/root/a"), len(bench.tree.permits.held)) == ("running", 1)


def test_a_later_run_of_a_turn_counts_its_rests_anew() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.work()
    bench.rested("/root/a", 5)
    bench.wants("/root/a", 5)
    bench.tree.rested(bench.notice("/root/a", 1, run=2), NOW)
    assert (bench.state("/root/a"), bench.tree.permits.held) == ("waiting", [])


@pytest.mark.parametrize("turn", ["none", "foreground"])
def test_what_holds_no_permit_goes_on_at_once(turn: str) -> None:
    bench = Bench(limit=1)
    bench.start("a", mode="foreground" if turn == "foreground" else "background")
    if turn == "none":
        bench.end("/root/a")
    bench.start("b")
    bench.work()
    if turn == "foreground":
        bench.rested("/root/a")
    bench.wants("/root/a")
    assert len(grants(bench.work())) == 1
    assert bench.tree.permits.held == [bench.id("/root/b") + ".1"]


def test_foreground_turns_need_no_permit() -> None:
    bench = Bench(limit=1, mode="foreground")
    assert [bench.start(name).state for name in "abc"] == ["running"] * 3
    bench.work()
    nested = bench.start("n", by=bench.caller("/root/a"))
    assert (nested.mode, nested.state, bench.tree.permits.held) == ("foreground", "running", [])


def test_a_start_that_waits_is_told_when_its_turn_has_ended() -> None:
    bench = Bench(mode="foreground")
    call = bench.caller()
    bench.start("a", by=call, key="answer")
    bench.work()
    bench.settle("/root/a", "here it is")
    assert [order.model_dump(include={"task_id", "key"}) for order in bench.work() if order.kind == "tell-call"] == [
        {"task_id": call.task_id, "key": "answer"}
    ]
    assert [one.text for one in bench.read(call, target="a").completions] == ["here it is"]


def test_another_limit_counts_from_the_reload_on() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    bench.start("b")
    bench.work()
    settings = SubagentSettings(max_concurrent_runs=2)
    bench.tree.reload(Snapshot(definitions=bench.tree.snapshot.definitions, settings=settings), NOW)
    assert begun(bench.work()) == ["/root/b"]


# Messages.


def test_a_follow_up_begins_one_turn_with_all_that_waits() -> None:
    bench = Bench()
    bench.start("a")
    bench.end("/root/a")
    assert [bench.send("a", content).pending for content in ("1", "2")] == [1, 2]
    accepted = bench.follow_up("a", "3")
    assert (accepted.messages, accepted.state) == (3, "running")
    bench.send("a", "4")
    (order,) = [one for one in bench.work() if isinstance(one, BeginTurn)]
    assert ([one.text for one in order.messages], order.request_id) == (["1", "2", "3"], accepted.turn_id)
    assert [one.text.text for one in bench.tree.agents[bench.id("/root/a")].mailbox.messages] == ["4"]


def test_a_send_begins_nothing() -> None:
    bench = Bench()
    bench.start("a")
    bench.end("/root/a")
    bench.send("a")
    assert (bench.work(), bench.state("/root/a")) == ([], "idle")


def test_a_follow_up_without_anything_to_say_is_refused() -> None:
    bench = Bench()
    bench.start("a")
    bench.end("/root/a")
    assert refusal(lambda: bench.follow_up("a")) == "mailbox_empty"


def test_messages_are_consumed_when_the_user_turn_is_durable_and_not_before() -> None:
    bench = Bench()
    bench.start("a", prompt="go")
    order = under_way(bench)
    assert bench.tree.listing().agents[0].pending == 1
    bench.send("a", "later")
    bench.tree.done(order.order_id, Begun(), NOW)
    assert [one.text.text for one in bench.tree.agents[bench.id("/root/a")].mailbox.messages] == ["later"]


def test_a_turn_whose_submission_can_never_succeed_gives_its_messages_back_and_is_told_of_as_lost() -> None:
    bench = Bench()
    bench.start("a")
    order = under_way(bench)
    bench.tree.done(order.order_id, Begun(failed="no such model"), NOW)
    (told,) = bench.read().completions
    assert (told.reason, told.detail, bench.tree.permits.held) == ("lost", "no such model", [])
    assert (bench.state("/root/a"), bench.tree.listing().agents[0].pending) == ("idle", 1)
    bench.follow_up("a")
    assert under_way(bench).birth == order.birth


def test_an_agent_whose_conversation_is_another_one_is_corrupt_and_cannot_be_used() -> None:
    bench = Bench()
    bench.start("a")
    order = under_way(bench)
    bench.tree.done(order.order_id, Begun(failed="it is not ours", is_corrupt=True), NOW)
    assert bench.state("/root/a") == "corrupt"
    assert refusal(lambda: bench.send("a")) == "corrupt"
    assert refusal(lambda: bench.follow_up("a", "x")) == "corrupt"


def test_a_follow_up_while_a_turn_is_open_joins_it() -> None:
    bench = Bench(limit=1)
    started = bench.start("a")
    bench.work()
    accepted = bench.follow_up("a", "and this")
    assert (accepted.state, accepted.turn_id) == ("joined", started.turn_id)
    (order,) = bench.work()
    assert isinstance(order, BeginTurn)
    assert (order.joins, order.request_id, [one.text for one in order.messages]) == (
        True,
        f"{started.turn_id}.2",
        ["and this"],
    )


def test_a_joined_turn_ends_once_when_all_of_it_has_settled_as_its_last_part_did() -> None:
    bench = Bench()
    turn_id = bench.start("a").turn_id
    bench.work()
    bench.follow_up("a", "and this")
    bench.work()
    bench.settle("/root/a", "second", request_id=f"{turn_id}.2")
    assert bench.work() == []
    bench.settle("/root/a", "first", request_id=turn_id)
    (order,) = bench.work()
    assert isinstance(order, FetchTurn)
    assert order.answer_text == "second"
    assert [one.turn_id for one in bench.read().completions] == [turn_id]


def test_a_follow_up_to_a_turn_that_has_not_begun_goes_along_with_it() -> None:
    bench = Bench(limit=1)
    bench.start("a")
    started = bench.start("b", prompt="1")
    bench.work()
    accepted = bench.follow_up("b", "2")
    assert (accepted.state, accepted.turn_id) == ("queued", started.turn_id)
    bench.settle("/root/a")
    (order,) = [one for one in bench.work() if isinstance(one, BeginTurn)]
    assert [one.text for one in order.messages] == ["1", "2"]


def test_an_end_that_is_known_before_its_begin_consumes_and_ends_once() -> None:
    bench = Bench()
    bench.start("a")
    order = under_way(bench)
    bench.settle("/root/a")
    assert bench.tree.listing().agents[0].pending == 0
    assert [one.kind for one in bench.work()] == ["fetch-turn"]
    before = bench.tree.model_copy(deep=True)
    bench.tree.done(order.order_id, Begun(failed="it was late"), NOW)
    assert bench.tree == before
    assert len(bench.read().completions) == 1


def test_orders_for_one_agent_are_under_way_one_at_a_time() -> None:
    bench = Bench()
    bench.start("a")
    first = under_way(bench)
    bench.follow_up("a", "more")
    assert bench.tree.due() == []
    bench.tree.done(first.order_id, Begun(), NOW)
    assert begun(bench.tree.due()) == ["/root/a"]


def test_the_run_of_the_tree_turns_over_only_while_nothing_is_under_way() -> None:
    bench = Bench()
    bench.start("a")
    assert bench.tree.is_quiet
    order = under_way(bench)
    assert not bench.tree.is_quiet
    bench.tree.done(order.order_id, Begun(), NOW)
    assert bench.tree.is_quiet


# Waiting.


def test_an_agent_whose_own_agents_work_is_waiting_and_told_of_once() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.start("b", by=bench.caller("/root/a"))
    bench.end("/root/a", "they are at it")
    (row, _) = bench.tree.listing().agents
    assert (row.state, row.waits_for) == ("waiting", "its agents: /root/a/b")
    (told,) = bench.read().completions
    assert told.working == ("/root/a/b",)
    bench.end("/root/a/b")
    (row, _) = bench.tree.listing().agents
    assert (row.state, row.updates) == ("idle", 1)
    assert [event.kind for event in bench.tree.events.newest if event.path == "/root/a"] == [
        "start",
        "turn-start",
        "turn-end",
        "end",
    ]
