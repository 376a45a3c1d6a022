"""What happened between two views: events that lead from the first to the second, in their order."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from tarry.core.compaction_view import CompactionView
from tarry.core.glances import InboxItem, Retry
from tarry.core.live import (
    MAX_ENTRIES,
    CallStatus,
    LiveCall,
    LiveMessage,
    LiveRun,
    LiveView,
    Streamed,
    open_requests,
    window,
)
from tarry.core.live_changes import changes
from tarry.core.live_events import EVENTS, FACTS, Event, applied
from tarry.core.messages import AssistantMessage, ToolCallRequest, ToolMessage, Usage
from tarry.core.protocol import SubmissionView
from tarry.core.transcript import (
    Draft,
    Entry,
    Position,
    ToolFacts,
    Transcript,
    assistant_draft,
    compaction_draft,
    note_draft,
    reset_draft,
    result_draft,
    user_draft,
)

NOW = datetime(2026, 3, 2, 8, 30, tzinfo=UTC)


def call(slot: int, *, status: CallStatus = "running", output: str = "", task: str = "t") -> LiveCall:
    return LiveCall(
        task_id=f"{task}{slot}",
        slot=slot,
        call_id=f"call_{slot}",
        tool="look",
        status=status,
        output=Streamed(text=output),
    )


def run(number: int = 1, **facts: object) -> LiveRun:
    return LiveRun(generation_id=f"c~n/g{number}").model_copy(update={"phase": "model", **facts})


def transcript(*drafts: Draft) -> tuple[Entry, ...]:
    made = Transcript(start=Position(chain="n"))
    return tuple(made.append(draft) for draft in drafts)


USER = user_draft("go", NOW, 1)
ASKED = assistant_draft(
    AssistantMessage(calls=(ToolCallRequest(call_id="call_0", name="look", arguments="{}"),)), NOW, 1
)
RESULT = result_draft(ToolMessage(call_id="call_0", name="look", text="seen"), ToolFacts(task_id="t0"), NOW, 1)
SAID = assistant_draft(AssistantMessage(text="It is there."), NOW, 1)


def view(open_run: LiveRun | None = None, entries: Sequence[Entry] = (), **facts: object) -> LiveView:
    made = LiveView(
        conversation_id="c",
        nonce="n",
        end=Position(chain="n"),
        pages=(),
        open_generation=open_run.generation_id if open_run else None,
        queued=(),
        runs=1,
        usage=Usage(),
        run=open_run,
        entries=window(entries),
    )
    return made.model_copy(update=facts)


def heard(old: LiveView, events: Sequence[Event]) -> LiveView:
    for event in events:
        old = applied(old, EVENTS.validate_json(EVENTS.dump_json(event)))
    return old


def types(old: LiveView, new: LiveView) -> list[str]:
    events = changes(old, new)
    assert heard(old, events) == new
    return [event.type for event in events]


def test_equal_views_tell_of_nothing() -> None:
    assert changes(view(run()), view(run())) == ()


def test_streamed_text_comes_as_deltas() -> None:
    old = view(run(message=LiveMessage(id="m", text=Streamed(text="It is "))))
    new = view(run(message=LiveMessage(id="m", text=Streamed(text="It is there."))))

    (event,) = changes(old, new)

    assert EVENTS.dump_python(event) == {
        "type": "message_update",
        "message_id": "m",
        "at": 6,
        "delta": "there.",
        "offset": 0,
    }


def test_response_ends_directly_before_its_entry_and_its_calls_begin_after_it() -> None:
    old = view(run(message=LiveMessage(id="m")), transcript(USER))
    new = view(run(phase="tools", calls=(call(0),)), transcript(USER, ASKED))

    assert types(old, new) == ["message_end", "entry_appended", "run_update", "tool_execution_start"]


def test_call_ends_directly_before_its_result_and_the_next_turn_begins_last() -> None:
    old = view(run(phase="tools", calls=(call(0, output="see"),)), transcript(USER, ASKED))
    new = view(run(turn=2, message=LiveMessage(id="m2")), transcript(USER, ASKED, RESULT), usage=Usage(input_tokens=3))

    assert types(old, new) == [
        "tool_execution_end",
        "entry_appended",
        "turn_end",
        "usage_changed",
        "turn_start",
        "run_update",
        "message_start",
    ]


def test_run_ends_before_submissions_and_the_next_run_begins_after_them() -> None:
    old = view(run(inputs=("a",), message=LiveMessage(id="m")), transcript(USER), placed=("a",), queued=("b",))
    done = SubmissionView(request_id="a", status="done")
    new = view(
        run(2, inputs=("b",)), transcript(USER, SAID, USER), placed=("b",), settled=(done,), end=Position(index=3)
    )

    assert types(old, new) == [
        "message_end",
        "entry_appended",
        "entry_appended",
        "turn_end",
        "run_end",
        "submission",
        "submission",
        "inbox_update",
        "record_changed",
        "run_start",
        "turn_start",
        "run_update",
    ]


def test_failed_request_is_told_as_a_retry() -> None:
    old = view(run(message=LiveMessage(id="m")), transcript(USER))
    waits = view(run(phase="retry", retry=Retry(at=NOW, why="503")), transcript(USER, note_draft("again", NOW, 1)))
    again = view(run(message=LiveMessage(id="m2")), transcript(USER, note_draft("again", NOW, 1)))

    assert types(old, waits) == ["run_update", "auto_retry_start", "entry_appended", "message_end"]
    assert types(waits, again) == ["run_update", "message_start", "auto_retry_end"]


def test_lost_call_is_told_as_failed() -> None:
    lost = result_draft(
        ToolMessage(call_id="call_0", name="look", text="lost", is_error=True),
        ToolFacts(task_id="t0", code="lost"),
        NOW,
        1,
    )
    old = view(run(phase="tools", calls=(call(0),)), transcript(USER, ASKED))

    assert types(old, view(run(phase="tools"), transcript(USER, ASKED, lost))) == [
        "tool_execution_end",
        "entry_appended",
        "task_failed",
    ]


def test_compaction_ends_before_the_next_one_begins() -> None:
    one = CompactionView(request_id="a", reason="manual", status="running")
    other = CompactionView(request_id="b", reason="manual")
    old = view(compactions=(one,))
    new = view(compactions=(one.model_copy(update={"status": "placed"}), other))

    assert types(old, new) == ["compaction_end", "compactions_changed", "compaction_start"]


def test_missed_entries_and_another_conversation_come_as_a_snapshot() -> None:
    many = transcript(*[USER] * (MAX_ENTRIES + 2))

    assert types(view(entries=many[:1]), view(entries=many)) == ["snapshot"]
    assert types(view(), view(nonce="other")) == ["snapshot"]


def test_tools_output_that_begins_anew_replaces_the_old_one() -> None:
    assert Streamed(text="run 1").until(Streamed(text="run 2 begins")) == (0, "run 2 begins")
    assert Streamed(text="abc", offset=2).until(Streamed(text="cdef", offset=4)) == (5, "def")


def test_only_the_newest_response_without_results_has_open_calls() -> None:
    assert [slot for slot, _ in open_requests(transcript(USER, ASKED))] == [0]
    assert open_requests(transcript(USER, ASKED, RESULT)) == []


def test_every_field_of_a_view_is_told_by_an_event() -> None:
    """Else each change of it would be a snapshot."""
    told = {name for fact in FACTS for name in fact.model_fields}

    assert set(LiveView.model_fields) - told == {
        "conversation_id",
        "nonce",
        "parent",
        "open_generation",
        "entries",
        "run",
        "settled",
    }


texts = st.text("ab\n", max_size=12)
grown = st.lists(texts, min_size=1, max_size=5)


@given(grown, st.integers(1, 20))
def test_listeners_have_the_kept_end_of_what_grows(pieces: list[str], kept: int) -> None:
    whole, heard_text = "", Streamed()
    for piece in pieces:
        whole += piece
        new = Streamed(text=whole[-kept:], offset=max(0, len(whole) - kept))
        at, delta = heard_text.until(new)
        heard_text = heard_text.with_delta(at, delta, new.offset)
        assert heard_text == new


@given(texts, st.integers(0, 9), texts, st.integers(0, 9))
def test_any_two_texts_are_bridged(old: str, old_offset: int, new: str, new_offset: int) -> None:
    before, after = Streamed(text=old, offset=old_offset), Streamed(text=new, offset=new_offset)
    at, delta = before.until(after)

    assert before.with_delta(at, delta, after.offset) == after


def drafts() -> st.SearchStrategy[Draft]:
    place = st.builds(Position, index=st.integers(0, 6))
    return st.one_of(
        st.sampled_from([USER, ASKED, RESULT, SAID, note_draft("n", NOW, 1), user_draft("x" * 100_000, NOW, 1)]),
        place.map(lambda at: reset_draft(NOW, 1, at)),
        place.map(lambda at: compaction_draft("sum", NOW, 1, at)),
    )


@given(st.lists(drafts(), max_size=12), st.integers(0, 12))
def test_entries_added_to_a_window_give_the_window_of_all(all_drafts: list[Draft], cut: int) -> None:
    entries = transcript(*all_drafts)

    assert window([*window(entries[:cut]), *entries[cut:]]) == window(entries)


streams = st.builds(Streamed, text=texts, offset=st.integers(0, 5))
calls = st.lists(
    st.builds(
        LiveCall,
        task_id=st.sampled_from(["", "t0", "t1"]),
        slot=st.integers(0, 2),
        call_id=st.sampled_from(["call_0", "call_1"]),
        tool=st.just("look"),
        status=st.sampled_from(["pending", "running", "sleeping", "done"]),
        output=streams,
    ),
    max_size=3,
    unique_by=lambda call: call.slot,
).map(lambda found: tuple(sorted(found, key=lambda call: call.slot)))
messages = st.none() | st.builds(LiveMessage, id=st.sampled_from(["m", "m2"]), text=streams)
runs = st.none() | st.builds(
    LiveRun,
    generation_id=st.sampled_from(["g1", "g2"]),
    turn=st.integers(1, 2),
    phase=st.sampled_from(["model", "tools"]),
    held=st.sampled_from(["", "why"]),
    retry=st.none() | st.builds(Retry, at=st.just(NOW), why=st.sampled_from(["a", "b"])),
    inputs=st.sampled_from([(), ("a",)]),
    message=messages,
    calls=calls,
)
ids = st.sampled_from([(), ("a",), ("a", "b")])
inboxes = st.sampled_from([(), (InboxItem(request_id="a", text="x", mode="steer", at=NOW),)])
ENTRIES = transcript(USER, ASKED, RESULT, SAID, USER, ASKED, RESULT)


@st.composite
def views(draw: st.DrawFn) -> LiveView:
    found: LiveRun | None = draw(runs)
    return view(
        found,
        ENTRIES[: draw(st.integers(0, len(ENTRIES)))],
        queued=draw(ids),
        placed=draw(ids),
        inbox=draw(inboxes),
        usage=Usage(input_tokens=draw(st.integers(0, 1))),
        contact=draw(st.sampled_from(["up", "no_worker"])),
        settled=draw(st.sampled_from([(), (SubmissionView(request_id="a", status="done"),)])),
        runs=draw(st.integers(0, 1)),
    )


@settings(max_examples=400)
@given(views(), views())
def test_events_lead_from_any_view_to_any_other(old: LiveView, new: LiveView) -> None:
    events = changes(old, new)

    assert heard(old, events) == new
    assert ("snapshot" in [event.type for event in events]) <= (len(events) == 1)


@settings(max_examples=400)
@given(views(), views())
def test_what_is_started_is_ended_within_its_turn(old: LiveView, new: LiveView) -> None:
    """Whatever happens in between: a run has its turns, a turn its response and calls, also for who only hears."""
    now = old
    for event in changes(old, new):
        match event.type:
            case "turn_end" | "run_end":
                assert now.run is not None
                assert (now.run.message, now.run.calls, now.run.retry) == (None, (), None)
            case "run_start":
                assert now.run is None
            case "message_start":
                assert now.run is not None
                assert now.run.message is None
        now = applied(now, event)
