"""What a tree does for one agent does not grow with the number of the others, in calls and bytes (spec §17.9)."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from tarry.core.subagents.foreseen import ForeseeingTree
from tarry.core.subagents.packing import packed, unpacked
from tarry.core.subagents.protocol import Updates
from tarry.core.subagents.tree import NAMED
from tests.support.trees import Bench

FEW, MANY = 30, 120
DESCRIPTION = "Look at one of many things, " * 17


def calls_of(work: Callable[[], object]) -> int:
    """How many functions were called meanwhile, those written in C among them."""
    count = 0

    def on_event(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(on_event)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def started(agents: int, limit: int = 4) -> Bench:
    bench = Bench(limit=limit)
    for number in range(agents):
        bench.start(f"agent-{number}", description=DESCRIPTION)
    return bench


def end_all(bench: Bench) -> list[Updates]:
    """End every turn, and read each end by itself."""
    updates: list[Updates] = []
    while running := [one for one in bench.tree.agents.values() if one.turn is not None and one.turn.has_begun]:
        for agent in running:
            bench.settle(agent.path, "an answer of some words")
            bench.work()
            call = bench.caller()
            updates.append(bench.read(call, key="1"))
            bench.read_done(call)
    return updates


def live(agents: int) -> Bench:
    """Every agent has a first turn, a message and a follow-up; every end is read by itself."""
    bench = started(agents)
    bench.work()
    end_all(bench)
    for agent in [*bench.tree.agents.values()]:
        bench.send(agent.path)
        bench.follow_up(agent.agent_id)
    bench.work()
    end_all(bench)
    return bench


def test_starts_messages_turns_and_reads_cost_hardly_more_for_each_of_many() -> None:
    few, many = calls_of(lambda: live(FEW)) / FEW, calls_of(lambda: live(MANY)) / MANY

    assert many < 1.5 * few


def test_a_list_costs_hardly_more_for_each_of_many_at_any_depth() -> None:
    def listing(agents: int) -> float:
        bench = Bench(limit=agents)
        for number in range(0, agents, 3):
            bench.start(f"a-{number}")
            bench.start("b", by=bench.caller(f"/root/a-{number}"))
            bench.start("c", by=bench.caller(f"/root/a-{number}/b"))
        return calls_of(bench.tree.listing) / agents

    assert listing(MANY) < 1.2 * listing(FEW)


def test_an_answer_to_a_read_names_some_of_many_agents_and_counts_all() -> None:
    bench = started(MANY)
    bench.work()

    first, *_, last = end_all(bench)

    assert (len(first.working), first.more_working, first.already_read) == (NAMED, MANY - 1 - NAMED, ())
    assert (last.working, last.more_working) == ((), 0)
    assert (len(last.already_read), last.more_already_read) == (NAMED, MANY - 1 - NAMED)


def test_a_list_of_256_agents_with_long_descriptions_is_below_half_a_mebibyte() -> None:
    bench = started(256)

    assert len(bench.tree.listing().model_dump_json()) < 512 * 1024


def test_a_tree_of_200_agents_whose_ends_were_read_is_carried_in_less_than_128_kib() -> None:
    tree = ForeseeingTree.model_validate_json(live(200).tree.model_dump_json())

    assert sum(map(len, tree.completions.was_read.values())) == 256
    assert len(packed(tree)) < 128 * 1024
    assert unpacked(packed(tree)) == tree
