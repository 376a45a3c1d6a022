"""What a subagent begins with: the turns that were complete before its call, and nothing else (spec §17.30)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.client.errors import NoSuchConversation, NoSuchEntry
from tarry.core.context import Context, in_context, model_messages, plan, request_context
from tarry.core.conversation import ConversationState
from tarry.core.forks import ForkSource
from tarry.core.messages import AssistantMessage, Message, SystemMessage, ToolCallRequest, ToolMessage, UserMessage
from tarry.core.open_run import run_of
from tarry.core.prompt import Prompt, SectionPatch, baseline
from tarry.core.protocol import SubmitInput
from tarry.core.subagents.protocol import ContextPolicy
from tarry.core.transcript import Entry, Position, place, system_draft
from tarry.core.turns import KEPT, Turn, Turns
from tarry.models import ModelRequest
from tarry.testing import check_request
from tests.support.lives import AT, Life, policies, steps

FRESH = ContextPolicy()
ALL = ContextPolicy(mode="all_completed")
OWN = Prompt.of([SectionPatch(key="s", text="of the child")], [])


def last(number: int) -> ContextPolicy:
    return ContextPolicy(mode="last_n_completed", completed_turns=number)


def first_context(life: Life, child: ConversationState) -> Context:
    """What the first request of a child says, to which the input of its first turn is `and now?`."""
    child = child.model_copy(deep=True)
    child.inbox.admit(SubmitInput(content="and now?", request_id="first"), AT)
    child.open_next(AT, "child")
    assert child.open is not None
    start = child.open.context_start or Position()
    entries = [entry for entry in life.store.all(child.transcript) if entry.index >= start.index]
    patches = plan(entries, OWN)
    assert patches == (baseline(OWN),), "its prompt is told anew"
    told = [place(system_draft(patch, AT, 0), entries[-1].position) for patch in patches]
    return request_context([*entries, *told])


def wanted(before: Sequence[Entry], turns: Sequence[tuple[int, int]], policy: ContextPolicy) -> list[Message]:
    """What it should be told, of all entries before the run of its call, and of the answered ones among their runs."""
    if policy.mode == "fresh" or not turns:
        return []
    context = in_context(before)
    marker = context[0] if context and context[0].head is not None else None
    head = marker.head.index if marker is not None and marker.head is not None else 0
    whole = [first for first, _ in turns if first >= head]
    summary = [marker.message] if marker is not None and marker.message is not None else []
    if policy.completed_turns is not None and len(whole) >= policy.completed_turns:
        head, summary = whole[-policy.completed_turns], []
    if not whole and not summary:
        return []
    kept = [entry for entry in before if head <= entry.index < turns[-1][1] and entry.head is None]
    said = [entry for entry in kept if entry.prompt is None]
    first = [Entry(kind="user", at=AT, message=message, index=0, prev="", chain="") for message in summary]
    return list(model_messages([*first, *said]))


@given(st.lists(steps, min_size=2, max_size=14), policies)
def test_whatever_a_parent_has_lived_through_a_childs_first_request_tells_whole_turns_and_passes(
    happened: list[tuple[object, ...]], policy: ContextPolicy
) -> None:
    life = Life()
    life.play(happened)
    before = life.entries
    life.open()

    child = life.child(policy)
    context = first_context(life, child)

    check_request(ModelRequest(messages=context.messages, instructions=context.instructions, session_id="child"))
    assert context.instructions == OWN.text()
    assert list(context.messages) == [*wanted(before, life.turns, policy), UserMessage(text="and now?")]
    assert not any(isinstance(message, SystemMessage) for message in context.messages)
    assert f"ask {life.asked}" not in [message.text for message in context.messages]
    assert (child.parent is None) == (len(context.messages) == 1)
    shared = life.store.all(child.transcript)[:-1] if child.parent is not None else []
    assert shared == before[: len(shared)]
    assert child.turns.before(child.runs + 1) == [
        turn for turn in life.state.turns.before(life.state.runs) if turn.end <= len(shared)
    ]


@given(st.lists(steps, min_size=2, max_size=10), st.lists(steps, max_size=6), policies)
def test_a_child_that_begins_late_begins_with_the_same(
    happened: list[tuple[object, ...]], later: list[tuple[object, ...]], policy: ContextPolicy
) -> None:
    life = Life()
    life.play(happened)
    life.open()
    call_id, early = life.call_id, life.child(policy)
    life.end([], "answered")
    life.play([step for step in later if step[0] not in ("fork", "child")])

    late = life.child(policy, call_id)

    assert first_context(life, late) == first_context(life, early)
    assert late.parent == early.parent
    assert [entry.index for entry in life.store.all(late.transcript)] == [
        entry.index for entry in life.store.all(early.transcript)
    ]


def test_of_an_open_turn_nothing_is_told_and_the_answered_one_before_it_whole() -> None:
    life = Life()
    calls = tuple(ToolCallRequest(call_id=name, name=name, arguments="{}") for name in ("done", "fork", "parked"))
    called, done = AssistantMessage(calls=calls), ToolMessage(call_id="done", name="done", text="fine")
    life.run([called, done], "answered")
    life.run([called, done], "failed")
    life.open()

    messages = first_context(life, life.child(ALL)).messages

    assert [message.text for message in messages if message.role == "user"] == ["ask 1", "and now?"]
    results = [message for message in messages if isinstance(message, ToolMessage)]
    assert [(result.call_id, result.is_error) for result in results] == [
        ("done", False),
        ("fork", True),
        ("parked", True),
    ]


def test_without_a_complete_turn_every_policy_is_fresh() -> None:
    life = Life()
    life.run([AssistantMessage(text="so")], "failed")
    life.open()

    for policy in (FRESH, ALL, last(1)):
        child = life.child(policy)
        assert child == ConversationState.born(child.nonce)


@pytest.mark.parametrize(
    ("policy", "spoken"),
    [
        (ALL, ["in short", "ask 2", "ask 3"]),
        (last(3), ["in short", "ask 2", "ask 3"]),
        (last(2), ["ask 2", "ask 3"]),
        (last(1), ["ask 3"]),
    ],
)
def test_a_summary_is_told_unless_enough_whole_turns_come_behind_it(policy: ContextPolicy, spoken: list[str]) -> None:
    life = Life()
    for end in ("answered", "answered"):
        life.run([], end)
    life.change("compact", 2)  # it keeps the second turn
    life.run([], "answered")
    life.open()

    messages = first_context(life, life.child(policy)).messages

    assert [message.text for message in messages if message.role == "user"] == [*spoken, "and now?"]


def test_a_turn_that_a_summary_cuts_is_not_a_whole_one() -> None:
    life = Life()
    life.run([AssistantMessage(text="first"), UserMessage(text="steer"), AssistantMessage(text="second")], "answered")
    life.change("compact", 2)
    life.run([], "answered")
    life.open()

    one, two = (first_context(life, life.child(policy)).messages for policy in (last(1), last(2)))

    assert [message.text for message in one] == ["ask 2", "answer 2", "and now?"]
    assert [message.text for message in two] == ["in short", "second", "answer 1", "ask 2", "answer 2", "and now?"]


def test_after_a_reset_behind_the_last_turn_it_is_fresh_and_a_hand_off_tells_its_words() -> None:
    life = Life()
    life.run([], "answered")
    life.write("reset")
    life.open()
    assert life.child(ALL).parent is None
    life.end([], "handoff")
    life.open()

    messages = first_context(life, life.child(ALL)).messages

    assert [message.text for message in messages] == ["handed over", "and now?"]


def test_a_child_of_a_child_begins_with_the_turns_that_both_have_completed() -> None:
    life = Life()
    for _ in range(3):
        life.run([], "answered")
    life.descend(last(2))
    life.run([], "answered")
    life.descend(ALL)
    life.open()

    spoken = [[m.text for m in first_context(life, life.child(policy)).messages] for policy in (ALL, last(1))]

    assert spoken[0] == ["ask 2", "answer 2", "ask 3", "answer 3", "ask 5", "answer 5", "and now?"]
    assert spoken[1] == ["ask 5", "answer 5", "and now?"]


def test_a_turn_of_several_inputs_is_one() -> None:
    life = Life()
    life.run([], "answered")
    life.run([AssistantMessage(text="so"), UserMessage(text="and steered")], "answered")
    life.open()

    messages = first_context(life, life.child(last(1))).messages

    assert [message.text for message in messages] == ["ask 2", "so", "and steered", "answer 2", "and now?"]


def test_a_call_whose_run_was_forgotten_or_is_of_another_conversation_begins_nothing() -> None:
    life = Life()
    life.open()
    forgotten = life.call_id
    life.end([], "answered")
    for _ in range(KEPT):
        life.run([], "answered")
        life.change("seal", 2)
    life.open()

    with pytest.raises(NoSuchEntry, match="over 128 turns"):
        life.child(ALL, forgotten)
    with pytest.raises(NoSuchConversation, match="another conversation than the one"):
        life.child(ALL, life.call_id.replace("nonce0", "other"))
    assert len(first_context(life, life.child(last(100))).messages) == 201
    assert life.child(FRESH, forgotten).parent is None


def test_of_turns_the_newest_are_kept_as_a_few_bytes_each() -> None:
    turns = Turns()
    for run in range(1, 201):
        turns.begin(run, run * 10_000)
        if run % 2:
            turns.complete(run, run * 10_000 + 9_999)

    assert (len(turns.log), turns.log[0].run) == (KEPT, 73)
    assert turns.before(76) == [Turn(73, 730_000, 739_999), Turn(75, 750_000, 759_999)]
    assert Turns.model_validate_json(turns.model_dump_json()) == turns
    assert len(turns.model_dump_json()) < 3_000


def test_of_a_turn_that_a_fork_has_in_part_it_is_not_complete() -> None:
    turns = Turns(log=[Turn(1, 0, 3), Turn(2, 3, 6), Turn(3, 6)])

    assert turns.shared(6).log == [Turn(1, 0, 3), Turn(2, 3, 6)]
    assert turns.shared(5).log == [Turn(1, 0, 3), Turn(2, 3)]
    assert turns.shared(3).log == [Turn(1, 0, 3)]


@pytest.mark.parametrize(
    ("task_id", "run"),
    [
        ("c~n/g12/t1.0", ("n", 12)),
        ("c~n/g3~2/t1.0~3/k.x", ("n", 3)),
        ("c~n/k.key", ("n", None)),
        ("task-key", ("", None)),
    ],
)
def test_a_task_id_names_the_run_it_is_part_of(task_id: str, run: tuple[str, int | None]) -> None:
    assert run_of(task_id) == run


@pytest.mark.parametrize("number", [None, 0, 101])
def test_only_a_policy_of_last_turns_has_a_number_of_1_to_100(number: int | None) -> None:
    with pytest.raises(ValueError, match="completed_turns"):
        ContextPolicy(mode="last_n_completed", completed_turns=number)
    with pytest.raises(ValueError, match="belongs to the mode"):
        ContextPolicy(mode="all_completed", completed_turns=3)


def test_a_conversation_from_before_turns_were_remembered_reads_and_remembers_them_from_then_on() -> None:
    life = Life()
    life.run([], "answered")
    old = life.state.model_dump(mode="json")
    del old["turns"]
    life.state = ConversationState.model_validate(old)
    life.run([], "answered")
    life.open()

    assert ForkSource.of(life.state).turns.before(3) == [Turn(2, 2, 4)]
    assert [m.text for m in first_context(life, life.child(ALL)).messages if m.role == "user"] == [
        "ask 1",
        "ask 2",
        "and now?",
    ]
