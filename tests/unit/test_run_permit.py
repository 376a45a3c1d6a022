"""When a subagent's run gives its permit back, and what it asks for when something of it was woken (spec §17.12)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tarry.core.subagents.run_permit import Notice, Resting, RunPermit, Waking, Word, place

RUN = "agent-1~nonce/g1"
A, B = f"{RUN}/t1.0", f"{RUN}/t1.1"
NOW = datetime(2026, 1, 1, tzinfo=UTC)
NUMBER = int(NOW.timestamp() * 1000)


def said(permit: RunPermit) -> list[Word]:
    """Everything that is due, said."""
    words: list[Word] = []
    while (word := permit.due(NOW)) is not None:
        permit.said(word)
        words.append(word)
    return words


def with_open(*task_ids: str) -> RunPermit:
    permit = RunPermit()
    for task_id in task_ids:
        permit.begin(task_id)
    return permit


def at_rest(*task_ids: str) -> RunPermit:
    """A run whose tasks rest, and that has told so."""
    permit = with_open(*task_ids)
    for task_id in task_ids:
        permit.rest(Resting(task_id=task_id))
    assert said(permit) == [Notice(kind="rested", number=NUMBER)]
    return permit


def test_a_run_with_nothing_open_keeps_its_permit() -> None:
    assert said(RunPermit()) == []


def test_a_run_rests_when_all_that_is_open_does() -> None:
    permit = with_open(A, B)
    permit.rest(Resting(task_id=A, waits_for="What of a?"))
    assert said(permit) == []
    permit.rest(Resting(task_id=B, waits_for="a reply"))
    assert said(permit) == [Notice(kind="rested", number=NUMBER, waits_for="What of a?; a reply")]


def test_a_run_rests_when_the_last_that_executes_is_over() -> None:
    permit = with_open(A, B)
    permit.rest(Resting(task_id=A))
    permit.end(B)
    assert said(permit) == [Notice(kind="rested", number=NUMBER)]


def test_a_parked_task_whose_child_executes_does_not_rest() -> None:
    permit = with_open(A)
    permit.rest(Resting(task_id=A, alive=(f"{A}/k.x",)))
    assert said(permit) == []
    permit.rest(Resting(task_id=f"{A}/k.x"))
    assert said(permit) == [Notice(kind="rested", number=NUMBER)]


def test_a_parked_task_rests_again_when_its_child_is_over() -> None:
    permit = with_open(A)
    permit.rest(Resting(task_id=A, alive=(f"{A}/k.x",)))
    permit.rest(Resting(task_id=A))
    assert said(permit) == [Notice(kind="rested", number=NUMBER)]


def test_who_wakes_while_the_run_holds_its_permit_goes_on_at_once() -> None:
    permit = with_open(A, B)
    permit.rest(Resting(task_id=A))
    permit.wake(Waking(task_id=A, number=1))
    assert said(permit) == [Waking(task_id=A, number=1)]


def test_who_wakes_at_rest_goes_on_when_the_wish_is_granted() -> None:
    permit = at_rest(A, B)
    permit.wake(Waking(task_id=A, number=1))
    permit.wake(Waking(task_id=B, number=1))
    assert said(permit) == [Notice(kind="wants", number=NUMBER)]
    permit.granted(NUMBER)
    assert said(permit) == [Waking(task_id=A, number=1), Waking(task_id=B, number=1)]


def test_a_rest_and_a_wake_that_come_together_are_no_rest() -> None:
    permit = with_open(A)
    permit.rest(Resting(task_id=A))
    permit.wake(Waking(task_id=A, number=1))
    assert said(permit) == [Waking(task_id=A, number=1)]


def test_a_grant_for_another_rest_or_unasked_says_nothing() -> None:
    permit = at_rest(A)
    permit.granted(NUMBER)
    assert not permit.holds
    permit.wake(Waking(task_id=A, number=1))
    assert said(permit) == [Notice(kind="wants", number=NUMBER)]
    permit.granted(NUMBER - 1)
    assert said(permit) == []


def test_a_run_whose_tasks_ended_at_rest_wants_its_permit_itself() -> None:
    permit = at_rest(A)
    permit.end(A)
    assert said(permit) == []
    permit.need()
    assert said(permit) == [Notice(kind="wants", number=NUMBER)]


def test_numbers_grow_also_within_one_instant() -> None:
    permit = at_rest(A)
    permit.wake(Waking(task_id=A, number=1))
    said(permit)
    permit.granted(NUMBER)
    said(permit)
    permit.rest(Resting(task_id=A))
    assert said(permit) == [Notice(kind="rested", number=NUMBER + 1)]


def test_what_is_not_of_the_run_says_nothing() -> None:
    permit = with_open(A)
    permit.rest(Resting(task_id=f"{RUN}/t9.9"))
    permit.rest(Resting(task_id=f"{A}0"))
    assert said(permit) == []


def test_a_run_that_begins_without_a_permit_asks_before_anything_else() -> None:
    permit = RunPermit()
    permit.ask_first(NOW)
    assert said(permit) == [Notice(kind="wants", number=NUMBER)]
    assert not permit.holds
    permit.granted(NUMBER)
    assert permit.holds


def test_a_run_that_is_begun_again_asks_under_a_higher_number_and_earlier_answers_say_nothing() -> None:
    permit = at_rest(A)
    permit.wake(Waking(task_id=A, number=1))
    assert said(permit) == [Notice(kind="wants", number=NUMBER)]

    permit.begin_again(NOW)

    assert said(permit) == [Notice(kind="wants", number=NUMBER + 1)]
    permit.granted(NUMBER)
    assert not permit.holds
    permit.granted(NUMBER + 1)
    assert said(permit) == [Waking(task_id=A, number=1)]


def test_a_run_that_is_begun_again_at_rest_says_so_again() -> None:
    permit = at_rest(A)
    permit.begin_again(NOW)
    assert said(permit) == [Notice(kind="rested", number=NUMBER + 1)]


def test_a_run_that_is_begun_again_knows_of_a_task_that_rested_before_it_found_it() -> None:
    permit = RunPermit()
    permit.rest(Resting(task_id=A, waits_for="a reply"))
    permit.begin_again(NOW)
    permit.rest(Resting(task_id=B, waits_for="nobody"))
    assert said(permit) == [Notice(kind="wants", number=NUMBER)]
    permit.granted(NUMBER)

    permit.begin(A)

    assert said(permit) == [Notice(kind="rested", number=NUMBER + 1, waits_for="a reply")]


def test_a_task_that_claims_to_have_created_itself_does_not_rest() -> None:
    permit = with_open(A)
    permit.rest(Resting(task_id=A, alive=(A,)))
    assert said(permit) == []


def test_a_call_that_runs_under_another_id_stands_in_the_place_of_its_first_one() -> None:
    permit = with_open(A)
    permit.rest(Resting(task_id=f"{A}~2", alive=(f"{A}~2/k.x",)))
    permit.rest(Resting(task_id=f"{A}~2/k.x"))
    assert said(permit) == [Notice(kind="rested", number=NUMBER)]
    permit.wake(Waking(task_id=f"{A}~2", number=1))
    permit.granted(NUMBER)
    assert place(f"{A}~2/k.x~y") == f"{A}/k.x~y"


Standing = Literal["executing", "parked", "asking"]


class Runs(RuleBasedStateMachine):
    """Tasks that nest, park, wake and end in any order, and a tree that grants when it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.permit = RunPermit()
        self.tasks: dict[str, Standing] = {}
        self.tree: Literal["held", "free", "wanted"] = "held"
        self.number = 0
        self.count = 0
        self.now = NOW
        self.left: set[str] = set()
        """What executed when the run was begun again: that goes on while the run asks."""

    def choose(self, data: st.DataObject, *standings: Standing) -> str:
        return data.draw(st.sampled_from([name for name, standing in self.tasks.items() if standing in standings]))

    def has(self, *standings: Standing) -> bool:
        return any(standing in standings for standing in self.tasks.values())

    def alive(self, name: str) -> tuple[str, ...]:
        return tuple(other for other in self.tasks if other.rpartition("/k.")[0] == name)

    @precondition(lambda self: self.permit.holds and not self.permit.needs)
    @rule()
    def begin(self) -> None:
        self.count += 1
        name = f"{RUN}/t1.{self.count}"
        self.tasks[name] = "executing"
        self.permit.begin(name)

    @precondition(lambda self: self.has("executing"))
    @rule(data=st.data())
    def nest(self, data: st.DataObject) -> None:
        self.count += 1
        owner = self.choose(data, "executing")
        name = f"{owner}/k.{self.count}"
        self.tasks[name] = "executing"
        if owner in self.left:
            self.left.add(name)

    @precondition(lambda self: self.has("executing"))
    @rule(data=st.data())
    def park(self, data: st.DataObject) -> None:
        name = self.choose(data, "executing")
        self.tasks[name] = "parked"
        self.permit.rest(Resting(task_id=name, alive=self.alive(name)))

    @precondition(lambda self: self.has("parked"))
    @rule(data=st.data())
    def wake(self, data: st.DataObject) -> None:
        name = self.choose(data, "parked")
        self.count += 1
        self.tasks[name] = "asking"
        self.permit.wake(Waking(task_id=name, number=self.count))

    @precondition(lambda self: bool(self.tasks))
    @rule(data=st.data())
    def end(self, data: st.DataObject) -> None:
        """A task ends by itself, or by a Stop of its own, after all that it created."""
        name = self.choose(data, "executing", "parked", "asking")
        for other in [*self.tasks]:
            if other == name or other.startswith(f"{name}/"):
                del self.tasks[other]
        owner = name.rpartition("/k.")[0]
        if not owner:
            self.permit.end(name)
        elif self.tasks[owner] == "parked":
            self.permit.rest(Resting(task_id=owner, alive=self.alive(owner)))

    @rule()
    def begin_again(self) -> None:
        """From here; the tree may know of a later rest, or of a permit that the run does not know of."""
        self.permit.begin_again(self.now)
        self.number = max(self.number, self.permit.number)
        self.tree = "held" if self.permit.holds else "free"
        self.left = {name for name, standing in self.tasks.items() if standing == "executing"}

    @precondition(lambda self: not self.tasks)
    @rule()
    def round_is_over(self) -> None:
        self.permit.need()

    @precondition(lambda self: self.permit.due(self.now) is not None)
    @rule(pause=st.integers(0, 2))
    def say(self, pause: int) -> None:
        self.now += timedelta(milliseconds=pause)
        word = self.permit.due(self.now)
        assert word is not None
        self.permit.said(word)
        if isinstance(word, Waking):
            assert self.tree == "held"
            if word.task_id in self.tasks:
                self.tasks[word.task_id] = "executing"
        elif word.kind == "rested":
            assert self.tree == "held"
            assert not self.has("executing", "asking")
            assert word.number > self.number
            self.tree, self.number = "free", word.number
        else:
            assert (self.tree, word.number) == ("free", self.number)
            self.tree = "wanted"

    @precondition(lambda self: self.tree == "wanted")
    @rule()
    def grant(self) -> None:
        self.permit.granted(self.number)
        self.tree = "held"
        self.left = set()

    @invariant()
    def nothing_executes_without_the_permit(self) -> None:
        assert self.permit.holds == (self.tree == "held")
        executing = {name for name, standing in self.tasks.items() if standing == "executing"}
        assert self.permit.holds or executing <= self.left

    def teardown(self) -> None:
        """Whoever asked goes on in the end, and a run of which nothing executes has told so."""
        while (due := self.permit.due(self.now) is not None) or self.tree == "wanted":
            if due:
                self.say(0)
            else:
                self.grant()
        assert not self.has("asking")
        is_at_rest = bool(self.tasks) and not self.has("executing")
        assert self.permit.holds != is_at_rest or (not self.tasks and not self.permit.needs)


def test_whatever_tasks_do_nothing_executes_without_the_permit_and_whoever_asks_goes_on() -> None:
    run_state_machine_as_test(Runs, settings=settings(max_examples=300, stateful_step_count=40, deadline=None))
