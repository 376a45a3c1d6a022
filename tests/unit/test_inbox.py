"""The inbox: admission, repeats, order and what is kept of each submission (spec §7.1)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.inbox import (
    ARCHIVE_BATCH,
    MAX_BYTES,
    MAX_CONTENT,
    MAX_ITEMS,
    OWN_IDS,
    Busy,
    Conflict,
    Full,
    Inbox,
    Record,
    TooLarge,
    pack,
    unpack,
)
from tarry.core.protocol import SubmitInput, digest

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def submit(request_id: str, content: str = "x", **fields: object) -> SubmitInput:
    return SubmitInput.model_validate({"content": content, "request_id": request_id, **fields})


def admitted(*request_ids: str) -> Inbox:
    inbox = Inbox()
    for request_id in request_ids:
        inbox.admit(submit(request_id), NOW)
    return inbox


def filled() -> Inbox:
    inbox = Inbox()
    for name in ("a", "b"):
        inbox.admit(submit(name, "x" * (MAX_BYTES // 2)), NOW)
    return inbox


def answered(inbox: Inbox, run: int, answer: int) -> Record:
    item = inbox.queue[0]
    inbox.place(item, run, answer - 1)
    return inbox.settle(item.request_id, answer=answer)


def test_inputs_are_placed_in_the_order_of_their_arrival() -> None:
    inbox = admitted("a", "b", "c")
    assert [answered(inbox, run, run).request_id for run in (1, 2, 3)] == ["a", "b", "c"]


def test_a_repeat_gets_the_record_of_the_first_whatever_became_of_it() -> None:
    inbox = admitted("a")
    again = submit("a")
    assert inbox.check(again, busy=True, known=inbox.find("a")) == inbox.live["a"]
    record = answered(inbox, 1, 7)
    assert inbox.check(again, busy=False, known=inbox.find("a")) == record
    assert (record.status, record.run, record.answer) == ("done", 1, 7)


def test_other_content_under_a_known_request_id_is_a_conflict() -> None:
    inbox = admitted("a")
    with pytest.raises(Conflict):
        inbox.check(submit("a", "y"), busy=False, known=inbox.find("a"))
    answered(inbox, 1, 7)
    with pytest.raises(Conflict):
        inbox.check(submit("a", "y"), busy=False, known=inbox.find("a"))


def test_reject_refuses_only_when_a_run_is_open_or_queued() -> None:
    polite = submit("b", when_busy="reject")
    assert Inbox().check(polite, busy=False, known=None) is None
    with pytest.raises(Busy):
        Inbox().check(polite, busy=True, known=None)
    with pytest.raises(Busy):
        admitted("a").check(polite, busy=False, known=None)


def test_a_full_inbox_refuses_by_count_and_by_bytes() -> None:
    with pytest.raises(Full, match="1000 inputs"):
        admitted(*map(str, range(MAX_ITEMS))).check(submit("one more"), busy=True, known=None)
    with pytest.raises(Full, match="bytes"):
        filled().check(submit("big", "x" * MAX_CONTENT), busy=True, known=None)


def test_an_input_over_half_a_mebibyte_is_refused() -> None:
    assert Inbox().check(submit("big", "x" * MAX_CONTENT), busy=True, known=None) is None
    with pytest.raises(TooLarge, match="524288 are allowed"):
        Inbox().check(submit("big", "x" * (MAX_CONTENT + 1)), busy=True, known=None)


def test_withdrawn_inputs_end_as_aborted_and_stay_known() -> None:
    inbox = admitted("a", "b")
    inbox.withdraw_queued()
    assert inbox.queue == []
    known = [inbox.find(name) for name in "ab"]
    assert [record and (record.status, record.reason) for record in known] == [("unanswered", "aborted")] * 2


def test_archived_records_leave_the_state_and_the_newest_archive_is_replaced_when_extended() -> None:
    inbox = Inbox()
    for number in range(300):
        inbox.admit(submit(str(number)), NOW)
        answered(inbox, number + 1, number)
    assert inbox.wants_archiving
    batch = inbox.oldest_settled()
    assert list(batch) == [digest(str(number)) for number in range(ARCHIVE_BATCH)]
    inbox.archived(batch, "first", extends=False)
    inbox.archived({}, "second", extends=True)
    assert (len(inbox.settled), inbox.archive, inbox.find("0")) == (300 - ARCHIVE_BATCH, ["second"], None)


@given(
    st.builds(
        Record,
        request_id=st.just("r"),
        content=st.just(digest("x")),
        status=st.sampled_from(["done", "unanswered"]),
        run=st.integers(0, 10**6),
        entry=st.integers(-1, 10**6),
        answer=st.integers(-1, 10**6),
        reason=st.sampled_from(["", "aborted", "model_error", "lost"]),
        detail=st.text(st.characters(codec="utf-8")),
    )
)
def test_packing_loses_nothing(record: Record) -> None:
    assert unpack("r", pack(record)) == record


@pytest.mark.parametrize("begin", OWN_IDS)
def test_nobody_takes_a_request_id_of_the_writes_that_a_conversation_makes_itself(begin: str) -> None:
    inbox = Inbox()
    with pytest.raises(Conflict):
        inbox.check(submit(begin + "x"), busy=False, known=None)
    own = inbox.admit(submit(begin + "x"), NOW)
    assert inbox.check(submit(begin + "x"), busy=False, known=own) == own


def test_choices_that_come_with_an_input_count_for_the_room_that_it_takes() -> None:
    inbox = Inbox()
    chosen = {"agent": {"instructions": "x" * 30_000}}
    for number in range(MAX_BYTES // 31_000):
        inbox.admit(submit(str(number), settings=chosen), NOW)
    with pytest.raises(Full):
        inbox.check(submit("one more", "x" * 100_000), busy=False, known=None)
