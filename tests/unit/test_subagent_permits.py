"""Permits: the limit, the queues and their order (spec §17.4)."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tarry.core.subagents.permits import Permits


def asked(limit: int, *turns: str) -> Permits:
    permits = Permits(limit=limit)
    for turn in turns:
        permits.start(turn)
    return permits


def test_starts_are_served_in_the_order_in_which_they_came() -> None:
    permits = asked(2, "a", "b", "c", "d")
    assert permits.grant() == ["a", "b"]
    permits.free("b")
    assert permits.grant() == ["c"]
    permits.free("a")
    assert (permits.grant(), permits.held) == (["d"], ["c", "d"])


def test_a_woken_turn_comes_before_every_start() -> None:
    permits = asked(1, "a", "b")
    permits.grant()
    permits.wake("w")
    permits.free("a")
    assert permits.grant() == ["w"]
    permits.free("w")
    assert permits.grant() == ["b"]


def test_a_turn_that_is_known_asks_for_nothing_more() -> None:
    permits = asked(1, "a", "b")
    permits.grant()
    for turn in ("a", "b"):
        permits.start(turn)
        permits.wake(turn)
    assert (permits.held, permits.woken, permits.starts) == (["a"], [], ["b"])


def test_a_permit_that_is_freed_twice_is_one_permit() -> None:
    permits = asked(1, "a", "b", "c")
    permits.grant()
    permits.free("a")
    permits.free("a")
    assert permits.grant() == ["b"]


def test_a_lower_limit_takes_no_permit_away_and_gives_none_until_there_is_room() -> None:
    permits = asked(3, "a", "b", "c", "d")
    permits.grant()
    permits.limit = 1
    permits.free("a")
    permits.free("b")
    assert permits.grant() == []
    permits.free("c")
    assert permits.grant() == ["d"]


class Scheduling(RuleBasedStateMachine):
    """Turns start, rest, wake and end; beside them what a queue of each kind says who is next."""

    def __init__(self) -> None:
        super().__init__()
        self.permits = Permits(limit=2)
        self.names = 0
        self.running: list[str] = []
        self.resting: list[str] = []
        self.woken: list[str] = []
        self.starts: list[str] = []

    def _serve(self) -> None:
        expected: list[str] = []
        while len(self.running) < 2 and (queue := self.woken or self.starts):
            expected.append(queue.pop(0))
            self.running.append(expected[-1])
        assert self.permits.grant() == expected

    @rule()
    def start(self) -> None:
        self.names += 1
        self.starts.append(f"t{self.names}")
        self.permits.start(f"t{self.names}")
        self._serve()

    @rule(data=st.data(), ends=st.booleans(), times=st.integers(1, 2))
    @precondition(lambda self: self.running)
    def rest_or_end(self, data: st.DataObject, ends: bool, times: int) -> None:
        turn = data.draw(st.sampled_from(self.running))
        self.running.remove(turn)
        if not ends:
            self.resting.append(turn)
        for _ in range(times):
            self.permits.free(turn)
        self._serve()

    @rule(data=st.data(), times=st.integers(1, 2))
    @precondition(lambda self: self.resting)
    def wake(self, data: st.DataObject, times: int) -> None:
        turn = data.draw(st.sampled_from(self.resting))
        self.resting.remove(turn)
        self.woken.append(turn)
        for _ in range(times):
            self.permits.wake(turn)
        self._serve()

    @rule(data=st.data())
    @precondition(lambda self: self.woken or self.starts)
    def leave_the_queue(self, data: st.DataObject) -> None:
        turn = data.draw(st.sampled_from(self.woken + self.starts))
        (self.woken if turn in self.woken else self.starts).remove(turn)
        self.permits.free(turn)
        self._serve()

    @invariant()
    def exactly_those_that_run_hold_a_permit(self) -> None:
        assert sorted(self.permits.held) == sorted(self.running)
        assert len(self.permits.held) <= self.permits.limit
        assert (self.permits.woken, self.permits.starts) == (self.woken, self.starts)

    @invariant()
    def nobody_queues_while_one_is_free(self) -> None:
        assert not (self.permits.is_free and self.permits.queued)


TestScheduling = Scheduling.TestCase
TestScheduling.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
