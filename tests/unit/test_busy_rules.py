"""Whatever is submitted, written, placed, stopped and turned over, in any order, keeps the rules (spec §6.6, §7.4).

Nothing is lost, nothing stands twice, writes stand before inputs at a boundary, and each kind in order of admission. A
steer that came before a Stop stands in the transcript too, whatever becomes of its run.
"""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tarry.core.boundaries import is_reset, place_taken
from tarry.core.conversation import ConversationState
from tarry.core.mail import TakeInput, Taken
from tarry.core.messages import AssistantMessage, UserMessage
from tarry.core.protocol import QueueMode, RunResult, RunSettings, SubmitInput, UnansweredReason, WhenBusy
from tarry.core.transcript import Entry, Position, Transcript, assistant_draft
from tarry.core.writes import Write, WriteKind

NOW = datetime(2026, 1, 1, tzinfo=UTC)
modes = st.sampled_from(["one-at-a-time", "all"])
kinds = st.sampled_from(["note", "user", "reset", "compaction"])


class Busy(RuleBasedStateMachine):
    """A conversation and its open run, without Temporal; beside them what was asked for, in order."""

    @initialize()
    def begin(self) -> None:
        self.state = ConversationState.born("n")
        self.submitted: list[str] = []
        self.withdrawn: set[str] = set()
        self.overtaken: list[str] = []
        self.run: Transcript | None = None
        self.is_tidying = False
        self.number = 0
        self._follow()

    # What people do.

    @rule(steers=st.booleans(), steering=modes, following=modes)
    def submit(self, steers: bool, steering: QueueMode, following: QueueMode) -> None:
        chosen = RunSettings(steering_mode=steering, follow_up_mode=following)
        when: WhenBusy = "steer" if steers else "follow_up"
        name = self._name("s" if steers else "f")
        self._admit(SubmitInput(content=name, request_id=name, when_busy=when, settings=chosen))

    @rule(kind=kinds, back=st.integers(0, 6))
    def write(self, kind: WriteKind, back: int) -> None:
        place = Position(index=max(0, self.state.transcript.end.index - back)) if kind == "compaction" else None
        name = self._name("w")
        self._admit(SubmitInput(content=name, request_id=name, write=Write(kind=kind, head=place)))

    @rule(data=st.data())
    @precondition(lambda self: self.state.inbox.queue)
    def withdraw(self, data: st.DataObject) -> None:
        item = data.draw(st.sampled_from(self.state.inbox.queue))
        assert self.state.inbox.take_back(item.request_id) == "withdrawn"
        self.withdrawn.add(item.request_id)

    @rule()
    def stop(self) -> None:
        """Of any run, of a run that is being stopped, and of none. What comes after it belongs to the next run."""
        queued = [item for item in self.state.inbox.queue if item.is_input]
        self.withdrawn |= {item.request_id for item in queued if not item.steer}
        self.overtaken += [item.request_id for item in queued if item.steer]
        self.state.stop()
        self._look_after_overtaken()

    @rule(data=st.data())
    @precondition(lambda self: self.overtaken)
    def take_back_what_was_overtaken(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.overtaken))
        where = "already_placed" if name in self.state.inbox.live else "settled"
        assert self.state.inbox.take_back(name) == where

    @rule(data=st.data())
    @precondition(lambda self: self.overtaken)
    def submit_what_was_overtaken_again(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(self.overtaken))
        again = SubmitInput(content=name, request_id=name, when_busy="steer")
        known = self.state.inbox.find(name)
        assert known is not None
        assert self.state.inbox.check(again, busy=True, known=known) == known

    # What the run does.

    @rule(is_lost=st.booleans())
    @precondition(lambda self: self.run is not None and not self.is_cut_off)
    def take_at_a_boundary(self, is_lost: bool) -> None:
        """A round of tools has ended. A run that ends before the answer arrives leaves what was handed over."""
        assert self.run is not None
        assert self.state.open is not None
        self.number += 1
        # After a Stop it is told what there is, and gets none of it.
        take = TakeInput(
            generation_id=self.state.open.generation_id, number=self.number, only_look=self.state.open.is_stopped
        )
        boundary = self.state.hand_over(take)
        assert boundary is not None
        self.is_cut_off = is_lost
        if is_lost:
            return
        self.places |= place_taken(self.run, boundary.items, 1, self.state.open.context_start)
        self.placed += [item.request_id for item in boundary.items if item.write is None]
        self._check_order(list(boundary.items))
        if any(is_reset(item) for item in boundary.items):
            assert all(item.write is not None for item in boundary.items)
            self._end("reset")

    @rule(reason=st.sampled_from(["", "model_error", "lost", "aborted"]))
    @precondition(lambda self: self.run is not None)
    def end(self, reason: UnansweredReason) -> None:
        """However it does, also when a Stop came; as `aborted` also alone, when somebody stopped the run itself."""
        self._end(reason)

    @rule()
    @precondition(lambda self: self.is_tidying)
    def tidied(self) -> None:
        """What the conversation had to put away after a run is put away: a moment in which no run is open."""
        self._open_next()

    @rule()
    def turn_over(self) -> None:
        """What is carried is all there is."""
        self.state = ConversationState.model_validate_json(self.state.model_dump_json())

    # What must hold.

    @invariant()
    def nothing_waits_without_a_run(self) -> None:
        assert self.state.open is not None or self.is_tidying or self.state.inbox.queue == []

    @invariant()
    def each_submission_has_one_place(self) -> None:
        live, queued = set(self.state.inbox.live), [item.request_id for item in self.state.inbox.queue]
        taken = [item.request_id for item in self.state.open.taken] if self.state.open else []
        assert len(queued + taken) == len({*queued, *taken})
        assert {*queued, *taken} <= live
        for name in self.submitted:
            record = self.state.inbox.find(name)
            assert record is not None
            assert (record.status in ("queued", "placed")) == (name in live)
            if name in self.withdrawn:
                assert (record.status, record.reason, record.entry) == ("unanswered", "aborted", -1)

    @invariant()
    def what_a_stop_overtook_stands_once_its_run_has_ended(self) -> None:
        stood = [said(entry) for entry in self.state.transcript.tail]
        for name in self.overtaken:
            assert name in self.state.inbox.live or stood.count(name) == 1

    @invariant()
    def what_was_placed_stands_where_its_record_says_once_and_each_kind_in_order(self) -> None:
        for kind in "sfw":
            names = [name for name in self.submitted if name[0] == kind]
            records = [self.state.inbox.find(name) for name in names]
            places = [(record.entry, record.request_id) for record in records if record and record.entry >= 0]
            assert places == sorted(places, key=lambda place: place[0])
            stood = [(entry.index, said(entry)) for entry in self.state.transcript.tail if said(entry)[:1] == kind]
            assert self.state.open is not None or stood == places

    def _name(self, kind: str) -> str:
        return f"{kind}{len(self.submitted)}"

    def _admit(self, submit: SubmitInput) -> None:
        self.submitted.append(submit.request_id)
        self.state.inbox.admit(submit, NOW)
        self._open_next()

    def _open_next(self) -> None:
        self.is_tidying = False
        self.state.open_next(NOW, "c")
        self._follow()

    def _end(self, reason: UnansweredReason) -> None:
        run, open_run = self.run, self.state.open
        assert run is not None
        assert open_run is not None
        run.append(assistant_draft(AssistantMessage(text="fine"), NOW, open_run.run))
        result = RunResult(
            status="unanswered" if reason else "done",
            reason=reason,
            entries=tuple(run.tail),
            placed=tuple(self.placed),
            places=self.places,
        )
        left = [item.request_id for item in open_run.taken if item.is_input and item.request_id not in self.places]
        if reason == "aborted" or open_run.is_stopped:
            self.overtaken += [name for name in left if name not in self.overtaken]
        self.state.close_run(open_run, result, NOW)
        for request_id in (open_run.request_id, *open_run.others, *self.placed):
            record = self.state.inbox.find(request_id)
            assert record is not None
            assert record.reason == reason
        self.run = None
        self.is_tidying = True
        self._look_after_overtaken()

    def _follow(self) -> None:
        """A run that has opened begins where the transcript ends."""
        if self.run is None and self.state.open is not None:
            self.state.begin_open()
            self.run = Transcript(start=self.state.open.start)
            self.is_cut_off = False
            self.placed: list[str] = []
            self.places: dict[str, int] = {}

    def _look_after_overtaken(self) -> None:
        """No run, so that each of them stands, and has one end; nobody answers it."""
        for name in self.overtaken if self.run is None else ():
            record = self.state.inbox.find(name)
            assert record is not None
            assert (record.status, record.reason) == ("unanswered", "aborted")
            assert record.entry >= 0

    def _check_order(self, items: list[Taken]) -> None:
        """Writes, then inputs; among those that never went back, in the order of admission."""
        assert [item.write is None for item in items] == sorted(item.write is None for item in items)


def said(entry: Entry) -> str:
    """The name of what was submitted, if it is that."""
    text = entry.message.text if isinstance(entry.message, UserMessage) else entry.note
    return "" if text.startswith("The run was lost") else text


TestBusy = Busy.TestCase
TestBusy.settings = settings(max_examples=150, stateful_step_count=40)


def test_a_compaction_names_a_place_that_there_can_be() -> None:
    with pytest.raises(ValueError, match="0 or more"):
        Write(kind="compaction", head=Position(index=-1))
