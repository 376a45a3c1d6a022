"""What each boundary takes out of the inbox, in which order, and what is stale by then (spec §6.6)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from tarry.core.boundaries import BoundaryKind, place_taken, selected
from tarry.core.conversation import ConversationState
from tarry.core.inbox import Inbox
from tarry.core.mail import Taken
from tarry.core.output import OutputSchema
from tarry.core.protocol import QueueMode, RunSettings, SubmitInput, WhenBusy
from tarry.core.transcript import Position, Transcript, note_draft
from tarry.core.writes import Write, WriteKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)

ONE, ALL = RunSettings(), RunSettings(steering_mode="all", follow_up_mode="all")


def item(name: str, settings: RunSettings = ONE) -> SubmitInput:
    """By its first letter a note, a reset, a steer or a follow-up."""
    kinds: dict[str, WriteKind] = {"n": "note", "r": "reset"}
    if name[0] in kinds:
        return SubmitInput(content=name, request_id=name, write=Write(kind=kinds[name[0]]))
    when_busy: WhenBusy = "steer" if name[0] == "s" else "follow_up"
    return SubmitInput(content=name, request_id=name, when_busy=when_busy, settings=settings)


def inbox_of(names: str, mode: QueueMode) -> Inbox:
    inbox = Inbox()
    for name in names.split():
        inbox.admit(item(name, ALL if mode == "all" else ONE), NOW)
    return inbox


@pytest.mark.parametrize(
    ("boundary", "mode", "queued", "placed"),
    [
        ("after_tools", "one-at-a-time", "f1 s1 s2 f2", "s1"),
        ("after_tools", "all", "f1 s1 s2 f2", "s1 s2"),
        ("after_tools", "one-at-a-time", "f1 s1 n1 s2 n2", "n1 n2 s1"),
        ("after_tools", "all", "s1 n1 s2 n2 f1", "n1 n2 s1 s2"),
        ("after_tools", "all", "f1 f2", ""),
        ("after_tools", "all", "s1 n1 r1 f1 n2", "n1 r1 n2"),  # it ends the run: nothing joins that
        ("final", "one-at-a-time", "f1 f2", "f1"),
        ("final", "all", "f1 f2", "f1 f2"),
        ("final", "one-at-a-time", "f1 s1 f2 s2", "f1 s1"),
        ("final", "one-at-a-time", "s1 s2 f1", "s1 f1"),
        ("final", "all", "s1 f1 n1 s2", "n1 s1 f1 s2"),
        ("final", "one-at-a-time", "f1 r1 f2 n1", "r1 n1 f1"),
        ("final", "all", "", ""),
    ],
)
def test_a_boundary_places_all_writes_then_inputs_by_their_mode_each_in_order_of_admission(
    boundary: BoundaryKind, mode: QueueMode, queued: str, placed: str
) -> None:
    chosen = selected(inbox_of(queued, mode).queue, boundary)

    assert " ".join(item.request_id for item in chosen) == placed


def test_of_each_kind_the_mode_that_its_oldest_came_with_counts() -> None:
    inbox = Inbox()
    for name, settings in (("s1", ALL), ("f1", ONE), ("s2", ONE), ("f2", ALL)):
        inbox.admit(item(name, settings), NOW)

    assert [item.request_id for item in selected(inbox.queue, "final")] == ["s1", "f1", "s2"]


@pytest.mark.parametrize(
    ("queued", "placed"), [("f1 o1 f2", "f1 f2"), ("o1 f1 f2", "o1"), ("s1 o1", "s1"), ("o1 s1 n1", "n1 o1")]
)
def test_an_input_whose_answer_has_a_form_of_its_own_is_answered_alone(queued: str, placed: str) -> None:
    formed = ALL.model_copy(update={"output": OutputSchema(name="any", json_schema={})})
    inbox = Inbox()
    for name in queued.split():
        inbox.admit(item(name, formed if name[0] == "o" else ALL), NOW)

    assert " ".join(item.request_id for item in selected(inbox.queue, "final")) == placed


def test_a_steer_whose_answer_has_a_form_of_its_own_joins_no_run() -> None:
    inbox = Inbox()
    inbox.admit(item("s1", ALL.model_copy(update={"output": OutputSchema(name="any", json_schema={})})), NOW)

    assert (inbox.queue[0].steer, selected(inbox.queue, "after_tools")) == (False, [])


def noted(number: int) -> Transcript:
    """A transcript of so many notes."""
    transcript = Transcript()
    for n in range(number):
        transcript.append(note_draft(str(n), NOW, 1))
    return transcript


def summary(name: str, upto: int) -> Taken:
    head = Position(index=upto, chain="")
    return Taken(request_id=name, content=name, at=NOW, write=Write(kind="compaction", head=head))


def reset(name: str) -> Taken:
    return Taken(request_id=name, content=name, at=NOW, write=Write(kind="reset"))


@pytest.mark.parametrize(
    ("before", "items", "places"),
    [
        (None, [summary("a", 2)], {"a": 5}),
        (None, [summary("a", 4), summary("b", 3)], {"a": 5, "b": -1}),
        (None, [summary("a", 3), summary("b", 3), summary("c", 4)], {"a": 5, "b": 6, "c": 7}),
        (None, [reset("r"), summary("a", 4)], {"r": 5, "a": -1}),
        (None, [summary("a", 4), reset("r")], {"a": 5, "r": 6}),
        (4, [summary("a", 3), reset("r")], {"a": -1, "r": 5}),
        (4, [summary("a", 4)], {"a": 5}),
        (None, [summary("a", 6)], {"a": -1}),  # no place that is there
    ],
)
def test_a_head_whose_place_is_older_than_that_of_the_newest_head_is_stale_and_a_reset_never_is(
    before: int | None, items: list[Taken], places: dict[str, int]
) -> None:
    place = None if before is None else Position(index=before, chain="")

    assert place_taken(noted(5), items, 1, place) == places


def test_a_compaction_names_a_place_and_nothing_else_does() -> None:
    with pytest.raises(ValidationError, match="needs the place"):
        Write(kind="compaction")
    with pytest.raises(ValidationError, match="other kinds have none"):
        Write(kind="note", head=Position())


def test_writes_are_placed_at_once_when_idle_and_start_no_run() -> None:
    state = ConversationState.born("n")
    for name in ("n1", "r1"):
        state.inbox.admit(item(name), NOW)
        state.open_next(NOW, "c")

    assert (state.open, state.inbox.queue) == (None, [])
    assert [entry.kind for entry in state.transcript.tail] == ["note", "reset"]
    record = state.inbox.find("r1")
    assert record is not None
    assert (record.status, record.entry) == ("done", 1)


def test_a_request_id_names_an_input_or_a_write_never_both() -> None:
    inbox = inbox_of("n1", "all")
    record = inbox.find("n1")
    assert record is not None

    assert inbox.check(item("n1"), busy=True, known=record) == record
    for other in (SubmitInput(content="n1", request_id="n1"), item("r1").model_copy(update={"request_id": "n1"})):
        assert other.digest != record.content
