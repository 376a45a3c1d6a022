"""What may be asked of a tree, by whom, and what a repeat does (spec §17.2, §17.8)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tarry.core.subagents.answers import KEPT
from tarry.core.subagents.definition import AgentDefinition, Snapshot
from tarry.core.subagents.protocol import Caller, Reported, run_number
from tests.support.trees import NOW, Bench, refusal


def family(limit: int = 10) -> Bench:
    """`/root/a` with a child `b`, and `/root/c`; all work."""
    bench = Bench(limit=limit)
    bench.start("a")
    bench.start("c")
    bench.work()
    bench.start("b", by=bench.caller("/root/a"))
    bench.work()
    return bench


Asks = dict[str, Callable[[Bench, Caller], object]]
ASKS: Asks = {
    "start": lambda bench, by: bench.start("new", by=by),
    "send": lambda bench, by: bench.send("a", by=by),
    "follow-up": lambda bench, by: bench.follow_up("a", "more", by=by),
    "read": lambda bench, by: bench.read(by),
    "interrupt": lambda bench, by: bench.interrupt("a", by=by),
}
every_ask = pytest.mark.parametrize("ask", ASKS.values(), ids=ASKS.keys())


@every_ask
def test_a_request_that_comes_again_is_answered_as_it_was_and_changes_nothing(
    ask: Callable[[Bench, Caller], object],
) -> None:
    bench = family()
    call = bench.caller(call="t9.0")
    first = ask(bench, call)
    before = bench.tree.model_copy(deep=True)
    assert ask(bench, call) == first
    assert bench.tree == before


@every_ask
def test_a_request_of_a_run_that_was_stopped_is_refused(ask: Callable[[Bench, Caller], object]) -> None:
    bench = family()
    bench.stopped(run=3)
    before = bench.tree.model_copy(deep=True)
    assert refusal(lambda: ask(bench, bench.caller(run=3))) == "stopped"
    assert bench.tree == before
    bench.work()
    assert refusal(lambda: ask(bench, bench.caller(run=4))) == ""


@every_ask
def test_who_is_none_of_the_tree_is_refused(ask: Callable[[Bench, Caller], object]) -> None:
    bench = family()
    before = bench.tree.model_copy(deep=True)
    strangers = [
        Caller(conversation_id="other", task_id="other~n/g1/t99.0"),
        Caller(conversation_id="chat", task_id="other~n/g1/t99.0"),
        Caller(conversation_id="chat", task_id=""),
        Caller(conversation_id="", task_id="chat~n/g1/t99.0"),
    ]
    assert [refusal(partial(ask, bench, stranger)) for stranger in strangers] == ["invalid"] * 4
    assert bench.tree == before


OTHERS: Asks = {
    "start": lambda bench, by: bench.start("other", by=by),
    "send": lambda bench, by: bench.send("a", "something else", by=by),
    "follow-up": lambda bench, by: bench.follow_up("a", "something else", by=by),
    "interrupt": lambda bench, by: bench.interrupt("c", by=by),
}


@pytest.mark.parametrize("kind", OTHERS)
def test_a_call_that_asks_for_something_else_than_before_is_refused(kind: str) -> None:
    bench = family()
    call = bench.caller(call="t9.0")
    ASKS[kind](bench, call)
    before = bench.tree.model_copy(deep=True)
    assert refusal(lambda: OTHERS[kind](bench, call)) == "conflict"
    assert bench.tree == before


def test_a_start_is_known_for_ever_and_other_requests_for_512_more() -> None:
    bench = Bench()
    call = bench.caller()
    started = bench.start("a", by=call)
    bench.end("/root/a")
    first = bench.caller()
    bench.follow_up("a", "0", by=first)
    for number in range(KEPT):
        bench.end("/root/a")
        bench.follow_up("a", str(number))
    assert bench.start("a", by=call) == started
    assert len(bench.tree.answers.kept) == KEPT
    assert f"follow-up {first.task_id}" not in bench.tree.answers.kept


def test_a_repeated_start_may_say_anew_what_its_host_makes_of_the_definition() -> None:
    bench = Bench()
    call = bench.caller()
    assert bench.start("a", by=call) == bench.start("a", by=call, agent={"model": "other"}, key="k")


def test_two_starts_of_one_name_at_once_make_one_agent() -> None:
    bench = Bench()
    bench.start("review")
    assert refusal(lambda: bench.start("review")) == "name_taken"
    assert [agent.path for agent in bench.tree.agents.values()] == ["/root/review"]


def test_the_name_of_an_agent_that_has_ended_is_not_given_again() -> None:
    bench = Bench()
    bench.start("review")
    bench.end("/root/review")
    assert refusal(lambda: bench.start("review")) == "name_taken"


def test_an_agent_that_is_not_in_the_catalogue_is_refused() -> None:
    bench = Bench()
    assert refusal(lambda: bench.start("a", definition="painter")) == "unknown_agent"
    bench.tree.reload(Snapshot(definitions=(AgentDefinition(name="painter", description="paints"),)), NOW)
    assert bench.start("a", definition="painter").path == "/root/a"
    assert refusal(lambda: bench.start("b")) == "unknown_agent"


def test_depth_is_limited() -> None:
    bench = Bench(limit=10, depth=2)
    bench.start("a")
    bench.start("b", by=bench.caller("/root/a"))
    assert refusal(lambda: bench.start("c", by=bench.caller("/root/a/b"))) == "too_deep"
    assert refusal(lambda: Bench(depth=0).start("a")) == "too_deep"


def test_the_number_of_agents_is_limited_the_ended_ones_among_them() -> None:
    bench = Bench(agents=2)
    for name in "ab":
        bench.start(name)
        bench.end(f"/root/{name}")
    assert refusal(lambda: bench.start("c")) == "too_many_agents"


@pytest.mark.parametrize(
    ("by", "target", "code"),
    [
        ("/root", "a", ""),
        ("/root", "/root/a", ""),
        ("/root", "a/b", "not_a_child"),
        ("/root", "/root", "not_a_child"),
        ("/root/a", "b", ""),
        ("/root/a", "../a/b", ""),
        ("/root/a", "../c", "not_a_child"),
        ("/root/a", "..", "not_a_child"),
        ("/root/a", ".", "not_a_child"),
        ("/root/a", "nobody", "unknown_target"),
        ("/root/a", "../../etc", "unknown_target"),
    ],
)
def test_messages_and_follow_ups_are_for_direct_children_alone(by: str, target: str, code: str) -> None:
    bench = family()
    assert refusal(lambda: bench.send(target, by=bench.caller(by))) == code
    assert refusal(lambda: bench.follow_up(target, "more", by=bench.caller(by))) == code
    agent = bench.id(by if target == "." else "/root/a")
    by_id = refusal(lambda: bench.send(agent, by=bench.caller("/root/c")))
    assert by_id == "not_a_child"


def test_a_person_writes_to_any_agent_below_and_queues_like_the_root() -> None:
    bench = family(limit=3)
    person = bench.caller("/root", run=0)
    assert bench.send("a/b", by=person).path == "/root/a/b"
    bench.end("/root/a/b")
    bench.start("d")
    assert bench.follow_up("a/b", by=person).state == "queued"


@pytest.mark.parametrize("target", ["/root", "..", ".", "/root/a"])
def test_waiting_for_oneself_or_an_agent_above_is_refused_as_a_circle(target: str) -> None:
    bench = family()
    assert refusal(lambda: bench.read(bench.caller("/root/a"), target=target, key="k")) == "not_a_child"
    assert bench.tree.completions.waiters == {}


def test_siblings_and_grandchildren_are_not_waited_for() -> None:
    bench = family()
    assert refusal(lambda: bench.read(bench.caller("/root/a"), target="../c", key="k")) == "not_a_child"
    assert refusal(lambda: bench.read(target="a/b", key="k")) == "not_a_child"


def test_a_read_says_who_works_since_when_and_who_was_read() -> None:
    bench = family()
    updates = bench.read()
    assert [(one.path, one.state, one.since) for one in updates.working] == [
        ("/root/a", "running", NOW),
        ("/root/c", "running", NOW),
    ]
    bench.end("/root/c")
    call = bench.caller()
    bench.read(call)
    bench.read_done(call)
    assert bench.read().already_read == ("/root/c",)


def test_no_agent_goes_on_in_foreground_mode_but_an_open_turn_is_joined() -> None:
    bench = Bench(mode="foreground")
    bench.start("a")
    bench.work()
    assert bench.send("a").pending == 1
    assert bench.follow_up("a").state == "joined"
    bench.work()
    for request in ("", ""):
        bench.settle("/root/a", request_id=request)
    assert refusal(lambda: bench.follow_up("a", "more")) == "foreground"


def test_a_schema_that_no_run_would_take_is_refused_before_anything_is_there() -> None:
    bench = Bench()
    assert refusal(lambda: bench.start("a", output={"description": "x" * 17_000})) == "invalid"
    assert bench.tree.agents == {}


def test_a_prompt_has_the_limits_of_a_message() -> None:
    bench = Bench()
    assert refusal(lambda: bench.start("a", prompt="x" * 131_073)) == "message_too_large"
    assert refusal(lambda: bench.start("a", prompt="")) == "invalid"
    assert bench.tree.agents == {}


@pytest.mark.parametrize(
    ("task_id", "run"),
    [
        ("chat~n/g12/t1.0", 12),
        ("chat~n/g3~2/t1.0/k.x", 3),
        ("chat~n/g4", 4),
        ("chat~n/person/7", 0),
        ("chat~n/k.g5/g6", 0),
        ("chat", 0),
        ("", 0),
        ("chat~n/g²/t1", 0),
        ("chat~n/g-1", 0),
    ],
)
def test_the_run_of_a_call_is_in_its_id(task_id: str, run: int) -> None:
    assert run_number(task_id) == run


def test_a_report_is_one_event_however_often_its_call_tells_of_it() -> None:
    bench = Bench()
    bench.start("a")
    caller = bench.caller("/root/a")

    for _ in range(2):
        bench.tree.reported(Reported(caller=caller), NOW)
    bench.tree.reported(Reported(caller=bench.caller()), NOW)

    told = [(one.path, one.detail) for one in bench.tree.listing().events if one.kind == "report"]
    assert told == [("/root/a", "to /root")]
