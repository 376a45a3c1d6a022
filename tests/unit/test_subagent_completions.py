"""Completions: one a turn, in the parent's own mailbox, read once (spec §17.5)."""

from __future__ import annotations

import pytest

from tarry.core.subagents.completions import MAX_KEPT, MAX_READ_BYTES, MAX_UNREAD, Completions
from tarry.core.subagents.orders import Fetched, FetchTurn, LookAtCall, Looked, Order, TellCall
from tarry.core.subagents.protocol import Completion
from tests.support.trees import NOW, Bench, refusal, text


def completion(number: int, utf8_bytes: int = 10, path: str = "/root/a") -> Completion:
    turn_id = f"agent-a.{number}"
    return Completion(
        update_id=turn_id,
        turn_id=turn_id,
        path=path,
        agent_id="agent-a",
        status="done",
        ended=NOW,
        blob="ref",
        utf8_bytes=utf8_bytes,
    )


def told(bench: Bench) -> list[tuple[str, str]]:
    return [(order.task_id, order.key) for order in bench.work() if isinstance(order, TellCall)]


def looks(bench: Bench) -> list[LookAtCall]:
    return [order for order in bench.tree.orders if isinstance(order, LookAtCall)]


def look(bench: Bench, found: Looked) -> None:
    """The tree hears what became of the calls that it asked about."""
    for order in looks(bench):
        bench.tree.done(order.order_id, found, NOW)


def answered(bench: Bench, *names: str) -> None:
    for name in names:
        bench.start(name)
        bench.end(f"/root/{name}", f"answer of {name}")


def test_children_that_end_in_mid_turn_are_all_read_once_each() -> None:
    bench = Bench()
    answered(bench, *(f"a{number}" for number in range(16)))
    call = bench.caller()
    read = bench.read(call).completions
    assert [one.path for one in read] == [f"/root/a{number}" for number in range(16)]
    bench.read_done(call)
    assert bench.read().completions == ()


def test_a_completion_is_of_one_call_until_that_is_over() -> None:
    bench = Bench()
    answered(bench, "a")
    first, second = bench.caller(), bench.caller()
    assert len(bench.read(first).completions) == 1
    assert bench.read(second).completions == ()
    assert bench.read(first) == bench.read(first)


@pytest.mark.parametrize(("state", "readable"), [("open", 0), ("read", 0), ("over", 1)])
def test_a_call_that_is_over_without_its_result_gives_back_what_it_read(state: str, readable: int) -> None:
    bench = Bench()
    answered(bench, "a")
    bench.read()
    bench.read()
    assert len(looks(bench)) == 1
    look(bench, Looked.model_validate({"state": state}))
    assert len(bench.read().completions) == readable


def test_a_read_asks_once_about_the_calls_before() -> None:
    bench = Bench()
    answered(bench, "a")
    bench.read()
    bench.read()
    bench.read()
    assert len(looks(bench)) == 1


def test_the_end_of_a_turn_asks_about_the_calls_that_read_in_it() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.start("b", by=bench.caller("/root/a"))
    bench.end("/root/a/b")
    reader = bench.caller("/root/a")
    bench.read(reader)
    bench.settle("/root/a")
    assert [order.task_id for order in looks(bench)] == [reader.task_id]


def test_what_is_given_back_is_told_to_the_calls_that_wait() -> None:
    bench = Bench()
    answered(bench, "a")
    bench.read()
    waiting = bench.caller()
    assert bench.read(waiting, key="k").completions == ()
    look(bench, Looked(state="over"))
    assert told(bench) == [(waiting.task_id, "k")]
    assert len(bench.read(waiting).completions) == 1


def test_what_another_call_has_is_told_as_held_until_that_has_its_result() -> None:
    bench = Bench()
    answered(bench, "a")
    reader = bench.caller()
    bench.read(reader)
    updates = bench.read()
    assert (updates.completions, updates.held, updates.already_read) == ((), 1, ())
    assert bench.read(reader).held == 0
    bench.read_done(reader)
    assert bench.read().held == 0


def test_a_call_that_waits_is_told_when_another_one_has_read_the_last_there_was() -> None:
    bench = Bench()
    answered(bench, "a")
    bench.start("b")
    reader, of_a, of_any = bench.caller(), bench.caller(), bench.caller()
    bench.read(reader)
    bench.read(of_a, target="a", key="a")
    bench.read(of_any, key="any")
    bench.read_done(reader)
    assert told(bench) == [(of_a.task_id, "a")]


def test_a_call_that_reads_again_after_its_result_reads_the_same() -> None:
    bench = Bench()
    answered(bench, "a")
    call = bench.caller()
    before = bench.read(call).completions
    bench.read_done(call)
    answered(bench, "b")
    assert bench.read(call).completions == before


def test_a_call_that_waits_is_told_once_under_its_newest_key() -> None:
    bench = Bench()
    bench.start("a")
    bench.start("b")
    call = bench.caller()
    for key in ("first", "second"):
        assert bench.read(call, key=key).completions == ()
    bench.work()
    bench.settle("/root/a")
    bench.settle("/root/b")
    assert told(bench) == [(call.task_id, "second")]
    assert len(bench.read(call).completions) == 2


def test_a_call_that_waits_for_one_child_is_told_of_that_one_alone() -> None:
    bench = Bench()
    bench.start("a")
    bench.start("b")
    call = bench.caller()
    bench.read(call, target="b", key="k")
    bench.work()
    bench.settle("/root/a")
    assert told(bench) == []
    bench.settle("/root/b")
    assert told(bench) == [(call.task_id, "k")]
    assert [one.path for one in bench.read(call, target="b").completions] == ["/root/b"]


def test_a_call_that_no_longer_waits_is_not_told() -> None:
    bench = Bench()
    bench.start("a")
    call = bench.caller()
    bench.read(call, key="k")
    bench.read(call)
    bench.work()
    bench.settle("/root/a")
    assert told(bench) == []


def test_a_parent_reads_no_completion_of_a_grandchild() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.start("b", by=bench.caller("/root/a"))
    bench.end("/root/a/b")
    assert bench.read().completions == ()
    assert [one.path for one in bench.read(bench.caller("/root/a")).completions] == ["/root/a/b"]


def test_a_read_gives_256_kib_in_order_and_says_what_is_left() -> None:
    box = Completions()
    for number in range(4):
        box.append("chat", completion(number, MAX_READ_BYTES // 2))
    assert [one.turn_id for one in box.reserve("chat", "call", "")] == ["agent-a.0", "agent-a.1"]
    assert box.left("chat", "") == 2


def test_a_completion_that_is_too_large_for_a_read_is_read_alone() -> None:
    box = Completions()
    box.append("chat", completion(1, MAX_READ_BYTES + 1))
    box.append("chat", completion(2))
    assert [one.turn_id for one in box.reserve("chat", "call", "")] == ["agent-a.1"]


def test_a_completion_without_room_leaves_a_record_and_an_event() -> None:
    bench = Bench()
    answered(bench, "a")
    for number in range(2, MAX_UNREAD + 1):
        bench.tree.completions.append("chat", completion(number))
    bench.follow_up("a", "again")
    bench.end("/root/a", "lost to the parent")
    (row,) = bench.tree.listing().agents
    assert (row.undelivered, row.turns, row.state) == (1, 2, "idle")
    assert [event.kind for event in bench.tree.events.newest[-3:]] == ["turn-end", "completion-error", "end"]
    assert bench.tree.completions.unread("chat") == MAX_UNREAD


def test_what_was_read_is_kept_for_the_newest_calls_alone() -> None:
    box = Completions()
    for number in range(MAX_KEPT + 10):
        box.append("chat", completion(number))
        box.reserve("chat", f"call-{number}", "")
        box.read(f"call-{number}")
    assert len(box.was_read) == MAX_KEPT
    assert [one.turn_id for one in box.reserve("chat", f"call-{MAX_KEPT + 9}", "")] == [f"agent-a.{MAX_KEPT + 9}"]
    assert box.reserve("chat", "call-0", "") == ()


def test_a_call_reads_one_target() -> None:
    bench = Bench()
    answered(bench, "a", "b")
    call = bench.caller()
    bench.read(call, target="a")
    assert refusal(lambda: bench.read(call, target="b")) == "conflict"


@pytest.mark.parametrize(
    ("answer", "reason", "detail"),
    [
        ("an answer", "", ""),
        (None, "model_error", "the provider said no"),
        (None, "max_turns", ""),
        (None, "cut_off", ""),
        (None, "empty_answer", ""),
        (None, "refused", ""),
        (None, "aborted", ""),
    ],
)
def test_how_a_turn_failed_is_told_apart_from_an_answer(answer: str | None, reason: str, detail: str) -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.settle("/root/a", answer, reason=reason, detail=detail)
    for order in bench.tree.due():
        assert isinstance(order, FetchTurn)
        fetched = Fetched(text=text("the last useful text"), is_cut=True)
        bench.tree.done(order.order_id, fetched, NOW)
    (told_of,) = bench.read().completions
    assert (told_of.status, told_of.reason, told_of.detail) == ("done" if answer else "unanswered", reason, detail)
    assert (told_of.text, told_of.utf8_bytes, told_of.is_cut) == ("the last useful text", 20, True)


def test_a_turn_that_ended_is_work_until_its_completion_is_there() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.settle("/root/a")
    updates = bench.read()
    assert ([one.path for one in updates.working], updates.already_read) == (["/root/a"], ())
    bench.work()
    assert [order for order in bench.tree.orders if isinstance(order, FetchTurn)] == []


def test_an_order_that_is_told_of_twice_makes_one_completion() -> None:
    bench = Bench()
    bench.start("a")
    bench.work()
    bench.settle("/root/a")
    (order,) = bench.tree.due()
    for _ in range(2):
        bench.tree.done(order.order_id, Fetched(), NOW)
    bench.settle("/root/a", request_id=bench.id("/root/a") + ".1")
    assert bench.work() == list[Order]()
    assert len(bench.read().completions) == 1
