"""What was spent, by model and tool (spec §7.8)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.ledger import MAX_ROWS, OTHERS, Ledger, Spent, dollars, spent_in
from tarry.core.messages import AssistantMessage, Usage
from tarry.core.protocol import ModelFailure, ModelTurn, RunSettings
from tarry.core.run import Failed, Responded, RunState, WorkerLost, advance

ONE = Usage(input_tokens=10, output_tokens=2, cost=Decimal("0.5"))


def test_requests_and_reports_add_up_by_name() -> None:
    ledger = Ledger().with_request("a/b", ONE).with_request("a/b", None).with_tool("search", ONE).with_tool("x", None)

    assert ledger.models == {"a/b": Spent(reports=2, unpriced=1, usage=ONE)}
    assert ledger.tools == {"search": Spent(reports=1, usage=ONE)}
    assert ledger.total == Spent(reports=3, unpriced=1, usage=ONE + ONE)


def test_every_end_of_a_request_counts_and_only_what_never_reached_a_model_does_not() -> None:
    state = RunState()
    failed = ModelFailure(error="retryable", text="down", model="a/b", usage=ONE)
    for event in (
        Responded(ModelTurn(message=AssistantMessage(), usage=ONE, model="a/b")),  # empty, asked again
        Failed(failed),
        Failed(failed.model_copy(update={"usage": None})),
        WorkerLost("half"),
        Failed(ModelFailure(error="no_model", text="none")),
    ):
        advance(state, event, RunSettings())

    assert state.spent == Ledger(models={"a/b": Spent(reports=3, unpriced=1, usage=ONE + ONE)})
    assert state.usage == ONE + ONE


def test_names_beyond_the_bound_share_a_line() -> None:
    ledger = Ledger()
    for number in range(MAX_ROWS + 5):
        ledger = ledger.with_tool(f"tool{number}", ONE)

    assert len(ledger.tools) == MAX_ROWS + 1
    assert ledger.tools[OTHERS].reports == 5


@pytest.mark.parametrize("outcome", [None, 5, {}, {"facts": 3}, {"spent": "x"}, {"facts": {"spent": {"models": 3}}}])
def test_what_a_child_tells_unreadably_is_nothing(outcome: object) -> None:
    assert spent_in(outcome) == Ledger()


def test_a_childs_ledger_is_read_from_a_calls_facts_and_from_a_tasks_outcome() -> None:
    ledger = Ledger().with_tool("search", ONE)
    told = ledger.model_dump(mode="json")

    assert spent_in({"facts": {"spent": told}}) == spent_in({"spent": told}) == ledger


NAMES = st.sampled_from([f"n{number}" for number in range(40)])


@given(st.lists(st.tuples(NAMES, st.integers(0, 9)), max_size=60), st.integers(0, 60))
def test_no_order_of_adding_loses_anything(spent: list[tuple[str, int]], cut: int) -> None:
    def of(part: list[tuple[str, int]]) -> Ledger:
        ledger = Ledger()
        for name, tokens in part:
            ledger = ledger.with_request(name, Usage(input_tokens=tokens))
        return ledger

    assert (of(spent[:cut]) + of(spent[cut:])).total == of(spent).total


def test_costs_are_shown_as_people_read_them() -> None:
    assert [dollars(cost) for cost in (None, Decimal(0), Decimal("1.23456"), Decimal("0.0000012"))] == [
        "?",
        "$0.0000",
        "$1.2346",
        "$0.0000012",
    ]
