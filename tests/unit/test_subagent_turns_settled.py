"""Turns that are found settled when they are to begin, as after a reset of their tree (spec §17.14)."""

from __future__ import annotations

import pytest

from tarry.core.settled import Settled
from tarry.core.subagents.orders import Begun
from tests.support.trees import NOW, Bench
from tests.unit.test_subagent_turns import under_way


@pytest.mark.parametrize(("was_placed", "left"), [(True, 0), (False, 1)])
def test_a_turn_that_is_found_settled_when_it_is_to_begin_ends_by_that(was_placed: bool, left: int) -> None:
    bench = Bench(limit=1)
    started = bench.start("a")
    order = under_way(bench)
    settled = Settled(
        conversation_id=started.agent_id,
        request_id=order.request_id,
        status="unanswered",
        reason="aborted",
        was_placed=was_placed,
    )
    bench.tree.done(order.order_id, Begun(is_queued=not was_placed, settled=settled), NOW)
    assert [one.kind for one in bench.work()] == ["fetch-turn"]
    (told,) = bench.read().completions
    assert (told.turn_id, told.reason, bench.tree.permits.held) == (started.turn_id, "aborted", [])
    assert bench.tree.listing().agents[0].pending == left
    before = bench.tree.model_copy(deep=True)
    bench.tree.settled(settled, NOW)
    assert bench.tree == before


def test_what_is_found_settled_when_it_is_to_join_a_turn_leaves_that_open_for_the_others() -> None:
    bench = Bench(limit=1)
    started = bench.start("a")
    bench.work()
    bench.follow_up("a", "and this")
    order = under_way(bench)
    settled = Settled(conversation_id=started.agent_id, request_id=order.request_id, status="done", answer=3)
    bench.tree.done(order.order_id, Begun(generation_id=f"{started.agent_id}~n/g1", settled=settled), NOW)
    assert (bench.work(), bench.tree.permits.held) == ([], [started.turn_id])
    bench.settle("/root/a", request_id=started.turn_id)
    bench.work()
    assert (len(bench.read().completions), bench.tree.permits.held) == (1, [])
