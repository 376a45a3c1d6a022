"""The inputs of a commit: each request id is one submission, whoever brings it (spec §7.1, §7.3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tarry.core.commits import CommitInput
from tarry.core.conversation import ConversationState
from tarry.core.inbox import Conflict, Full
from tarry.core.protocol import SubmitInput

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def commit(*inputs: tuple[str, str], key: str = "k") -> CommitInput:
    return CommitInput(key=key, inputs=tuple(SubmitInput(request_id=id, content=text) for id, text in inputs))


def known(state: ConversationState) -> list[str]:
    """Whom it runs for, then what is queued."""
    return [*([state.open.request_id] if state.open else []), *(item.request_id for item in state.inbox.queue)]


def test_an_input_that_a_commit_brings_twice_is_one() -> None:
    state = ConversationState.born("n")

    state.commit(commit(("r1", "x"), ("r1", "x"), ("r2", "y")), NOW, "c")

    assert known(state) == ["r1", "r2"]


def test_an_input_that_was_submitted_before_is_not_submitted_again_by_a_commit() -> None:
    state = ConversationState.born("n")
    state.inbox.admit(SubmitInput(request_id="r1", content="x"), NOW)

    state.commit(commit(("r1", "x"), ("r2", "y")), NOW, "c")

    assert known(state) == ["r1", "r2"]


@pytest.mark.parametrize("inputs", [[("r1", "other")], [("r2", "y"), ("r2", "z")]])
def test_a_commit_with_a_request_id_of_other_content_is_refused_whole(inputs: list[tuple[str, str]]) -> None:
    state = ConversationState.born("n")
    state.inbox.admit(SubmitInput(request_id="r1", content="x"), NOW)
    before = state.model_copy(deep=True)

    with pytest.raises(Conflict):
        state.commit(commit(("r0", "w"), *inputs), NOW, "c")

    assert state == before


def test_inputs_of_a_commit_without_request_ids_are_given_one_each() -> None:
    state = ConversationState.born("n")

    state.commit(commit(("", "x"), ("", "x")), NOW, "c")

    assert len(set(known(state))) == 2


def test_a_commit_of_more_inputs_than_an_inbox_holds_is_refused_whole() -> None:
    state = ConversationState.born("n")

    with pytest.raises(Full):
        state.commit(commit(*((f"r{number}", "x") for number in range(1_001))), NOW, "c")

    assert known(state) == []


def test_a_commit_that_nobody_will_repeat_takes_no_place_among_the_keys_that_are_known() -> None:
    state = ConversationState.born("n")

    for number in range(3):
        state.commit(CommitInput(key=f"k{number}", is_remembered=number == 1), NOW, "c")

    assert [state.commits.known(f"k{number}") != "" for number in range(3)] == [False, True, False]
    assert len(state.commits.keys) == 1
