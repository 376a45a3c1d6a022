"""The state of a conversation: its runs, their ids, and what it takes over from them (spec §1.7, §6.2)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tarry.core.agent import Agent
from tarry.core.commits import SendSignal
from tarry.core.compaction_protocol import CompactInput, NoSummary, Summary
from tarry.core.conversation import ConversationState
from tarry.core.inbox import DETAIL_LIMIT
from tarry.core.messages import AssistantMessage, Usage
from tarry.core.output import OutputSchema
from tarry.core.protocol import Notify, RunResult, RunSettings, SubmitInput, UnansweredReason
from tarry.core.transcript import Entry, Position, Transcript, assistant_draft, place, sealed
from tarry.core.writes import Write

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def opened(nonce: str = "n", content: str = "x", now: datetime = NOW) -> ConversationState:
    """A conversation whose first run is open."""
    state = ConversationState.born(nonce)
    state.inbox.admit(SubmitInput(content=content, request_id="r1"), now)
    state.open_next(now, "c")
    return state


def answer_after(start: Position) -> Entry:
    return place(assistant_draft(AssistantMessage(text="fine"), NOW, 1), start)


def test_an_input_admitted_again_at_another_time_has_the_same_place() -> None:
    first, again = opened(), opened(now=NOW + timedelta(hours=1))

    assert first.open == again.open


def test_equal_inputs_of_two_conversations_never_have_the_same_place() -> None:
    one, other = opened("n"), opened("m")

    assert one.transcript.end.index == other.transcript.end.index
    assert one.transcript.end.chain != other.transcript.end.chain


def test_a_run_that_continues_the_transcript_is_taken_over_and_answers_its_input() -> None:
    state = opened()
    assert state.open is not None
    answer = answer_after(state.open.start)

    state.close_run(state.open, RunResult(status="done", entries=(answer,)), NOW)

    assert state.open is None
    assert state.transcript.tail[-1] == answer
    record = state.inbox.find("r1")
    assert record is not None
    assert (record.status, record.answer) == ("done", 1)


def test_a_run_that_does_not_continue_the_transcript_counts_as_lost_and_leaves_it_as_it_was() -> None:
    state = opened()
    assert state.open is not None
    before = list(state.transcript.tail)
    foreign = RunResult(
        status="done", entries=(answer_after(Position(index=7, chain="other")),), usage=Usage(input_tokens=3)
    )

    state.close_run(state.open, foreign, NOW)

    assert state.open is None
    assert state.transcript.tail[:-1] == before
    assert state.transcript.tail[-1].note.startswith("The run was lost")
    record = state.inbox.find("r1")
    assert record is not None
    assert (record.status, record.reason) == ("unanswered", "lost")
    assert state.usage == Usage(input_tokens=3)


def test_an_open_run_that_got_another_id_is_known_by_it() -> None:
    state = opened()

    renamed = state.rename_open("c~n/g1~2")

    assert state.open == renamed
    assert state.generation_of("c", 1) == state.view("c").open_generation == "c~n/g1~2"
    assert state.generation_of("c", 2) == "c~n/g2"


def test_a_run_whose_entries_are_all_sealed_ends_whatever_it_ended_with() -> None:
    state = opened()
    run = state.open
    assert run is not None
    own = Transcript(start=run.start)
    own.append(assistant_draft(AssistantMessage(text="part"), NOW, 1))
    page = sealed("page", own.tail)
    state.transcript.seal(sealed("first", state.transcript.tail))

    state.close_run(run, RunResult(status="unanswered", reason="aborted", pages=(page,)), NOW)

    assert (state.open, state.transcript.tail, state.transcript.end) == (None, [], own.end)
    record = state.inbox.find("r1")
    assert record is not None
    assert (record.status, record.reason) == ("unanswered", "aborted")


def test_who_wants_to_hear_of_a_write_is_told_when_it_is_placed_though_no_run_follows() -> None:
    state = ConversationState.born("n")
    notify = Notify(task_id="t", key="k")
    submit = SubmitInput(content="it rains", request_id="w", write=Write(kind="note"), notify=notify)
    state.inbox.admit(submit, NOW)

    state.open_next(NOW, "c")

    (sent,) = state.commits.outbox
    assert isinstance(sent, SendSignal)
    assert (sent.task_id, sent.delivery.key, sent.delivery.value["status"]) == ("t", "k", "done")
    assert state.inbox.notices == []


def test_the_hooks_of_an_ended_run_and_their_tasks_go_without_what_its_requests_alone_need() -> None:
    state = ConversationState.born("n", Agent(model="fast", instructions="Be brief."))
    settings = RunSettings(output=OutputSchema(name="o", json_schema={"type": "object"}))
    state.inbox.admit(SubmitInput(content="x", request_id="r1", settings=settings), NOW)
    state.open_next(NOW, "c")
    assert state.open is not None

    state.close_run(state.open, RunResult(status="unanswered", reason="aborted", after_run=True), NOW)

    (ended,) = state.ended_runs
    assert (ended.input.agent, ended.settings.chosen) == (Agent(model="fast"), Agent(model="fast"))
    assert ended.settings.output is None


def test_a_summary_that_is_taken_back_is_over() -> None:
    state = opened()
    state.compactions.ask(CompactInput(request_id="c1"))
    state.end_compaction(Summary(text="what was", head=Position(index=1, chain="c")), NOW, "c")
    assert not state.compactions.views["c1"].is_over

    assert state.inbox.take_back("tarry.compaction:c1") == "withdrawn"
    state.compactions.withdrawn("tarry.compaction:c1")

    assert state.compactions.views["c1"].status == "aborted"


def test_of_a_long_reason_why_there_is_no_summary_the_beginning_is_carried() -> None:
    state = ConversationState.born("n")
    state.compactions.ask(CompactInput(request_id="c1"))

    state.end_compaction(NoSummary(why="failed", detail="x" * 4_000), NOW, "c")

    assert state.compactions.views["c1"].detail == "x" * DETAIL_LIMIT


def begun_behind(reason: UnansweredReason, request_id: str, tree: str = "root~n/agents") -> bool:
    """Whether the run of this input asks for a permit, behind one of a person that ended so."""
    state = opened()
    state.tree = tree
    state.inbox.admit(SubmitInput(content="y", request_id=request_id), NOW)
    assert state.open is not None
    state.close_run(state.open, RunResult(status="unanswered", reason=reason), NOW)
    state.open_next(NOW, "c")
    assert state.open is not None
    return state.open.asks


def test_a_turn_behind_a_run_that_may_have_ended_at_rest_asks_for_its_permit() -> None:
    assert begun_behind("aborted", "c.2")
    assert begun_behind("lost", "c.2")
    assert not begun_behind("max_turns", "c.2")


def test_an_input_of_a_person_and_any_of_a_root_asks_for_none() -> None:
    assert not begun_behind("aborted", "r2")
    assert not begun_behind("aborted", "c.2", tree="")


def test_it_asks_also_when_another_run_came_in_between_and_the_next_turn_does_not() -> None:
    state = opened()
    state.tree = "root~n/agents"
    asked: list[bool] = []
    for request_id in ("r2", "c.2", "c.3"):
        assert state.open is not None
        reason: UnansweredReason = "aborted" if state.runs == 1 else "max_turns"
        state.close_run(state.open, RunResult(status="unanswered", reason=reason), NOW)
        state.inbox.admit(SubmitInput(content="y", request_id=request_id), NOW)
        state.open_next(NOW, "c")
        asked.append(state.open is not None and state.open.asks)
    assert asked == [False, True, False]
