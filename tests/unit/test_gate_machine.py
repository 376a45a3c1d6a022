"""A call before its intent, as the machine sees it: asked as often as it wakes, never cleaned up after (spec §4.1)."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from signals.parking import Park, Wake
from signals.tokens import SignalKey
from tarry.core.gates import arguments_digest, deadline_memo
from tarry.core.protocol import ResolvedCall
from tarry.core.results import not_here
from tarry.core.task import (
    Abort,
    Aborted,
    Allowed,
    AskGates,
    Execute,
    Parked,
    Ran,
    Reasked,
    Rest,
    Unavailable,
    Woke,
    advance,
    resume,
)
from tarry.core.task_state import State

CALL = ResolvedCall(call_id="c1", tool="edit", arguments={"path": "a"}, gated="quick", cancels="parked")
PARK = Park(since=datetime(2026, 6, 1, tzinfo=UTC), keys=(SignalKey("s", "k"),))
WAKE = Wake(reason="signal", signal="s", key="k")


def test_every_wake_before_intent_asks_from_the_top_and_is_no_intent() -> None:
    state = State(phase="call")

    assert resume(state) == AskGates()
    for event in (Woke(WAKE), Reasked()):
        assert advance(state, Parked(PARK), CALL) == Rest(PARK) == resume(state)
        assert advance(state, event, CALL) == AskGates()
        assert state == State(phase="call")


def test_what_was_let_pass_runs_with_the_arguments_of_the_pass_and_its_first_wake_is_an_intent() -> None:
    state = State(phase="call")

    assert advance(state, Allowed({"path": "b"}), CALL) == Execute() == resume(state)
    assert (state.arguments, state.intent) == ({"path": "b"}, 1)
    advance(state, Parked(PARK), CALL)
    assert advance(state, Woke(WAKE), CALL) == Execute()
    assert (state.intent, state.wake) == (2, WAKE)


def test_a_call_that_is_stopped_at_its_gate_has_nothing_to_clean_up() -> None:
    asked, parked = State(phase="call"), State(phase="call")
    advance(parked, Parked(PARK), CALL)

    assert advance(asked, Aborted(), CALL) == Abort(None, waited=False)
    assert advance(parked, Aborted(), CALL) == Abort(None, waited=True)


def test_gates_of_a_tool_that_no_worker_has_are_looked_for_five_times() -> None:
    state = State(phase="call")
    found = [advance(state, Ran(not_here("edit")), CALL) for _ in range(6)]

    assert [type(one) for one in found] == [AskGates] * 5 + [Unavailable]


json_data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3),
    max_leaves=8,
)
arguments = st.dictionaries(st.text("abc", max_size=3), json_data, max_size=4)


@given(arguments, arguments)
def test_a_digest_stands_for_the_tool_and_its_arguments_in_any_order(
    one: dict[str, object], other: dict[str, object]
) -> None:
    turned = dict(reversed(one.items()))

    assert arguments_digest("edit", one) == arguments_digest("edit", turned) != arguments_digest("remove", one)
    if one != other:
        assert arguments_digest("edit", one) != arguments_digest("edit", other)


def test_the_deadline_of_a_wait_belongs_to_its_keys() -> None:
    names = [deadline_memo([SignalKey(signal, key)]) for signal, key in (("a", "b/c"), ("a/b", "c"), ("a", "b"))]

    assert len(set(names)) == 3
    assert deadline_memo([SignalKey("a", "b/c")]) == names[0]
