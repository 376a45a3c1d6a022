"""What a tree carries from run to run of its workflow stays small, however long it lives (spec §17.9)."""

from __future__ import annotations

import pytest

from tarry.core.subagents.events import KEPT
from tests.support.trees import Bench


def carried(bench: Bench) -> int:
    """Bytes that go into the next run."""
    return len(bench.tree.model_dump_json().encode())


def grown(agents: int, turns: int) -> Bench:
    """A tree whose agents have ended so many turns, all of them read."""
    bench = Bench(limit=agents)
    for number in range(agents):
        bench.start(f"agent-{number}", description="Look at one of many things")
    for _ in range(turns):
        bench.work()
        for agent in [*bench.tree.agents.values()]:
            bench.settle(agent.path, "an answer of some words")
        bench.work()
        call = bench.caller()
        assert len(bench.read(call).completions) == agents
        bench.read_done(call)
        for agent in [*bench.tree.agents.values()]:
            bench.follow_up(agent.agent_id, "once more")
    return bench


def test_turns_that_are_over_and_read_leave_numbers_alone() -> None:
    few, many = grown(20, 30), grown(20, 60)
    assert many.tree.agents[many.id("/root/agent-0")].ended == 60
    assert abs(carried(many) - carried(few)) < 2_000


@pytest.mark.parametrize(("agents", "most"), [(20, 512 * 1024), (200, 1024 * 1024)])
def test_a_tree_of_many_agents_is_carried_in_a_mebibyte(agents: int, most: int) -> None:
    assert carried(grown(agents, 10)) < most


def test_the_newest_events_are_kept_and_numbered() -> None:
    bench = grown(20, 10)
    events, count = bench.tree.events.newest, bench.tree.events.count
    assert [event.number for event in events] == list(range(count - KEPT + 1, count + 1))
