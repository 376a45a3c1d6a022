"""Spans where none is sent, and a trace as a text (spec §24.2)."""

from __future__ import annotations

import contextvars
import gc
from collections.abc import Iterator

import pytest
from opentelemetry import trace

from tarry.seeing import spans

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("text", ["", "00-x-y-01", "\ud800", PARENT[:-3], "5" * 10_000])
def test_a_text_that_tells_of_no_trace_begins_a_new_one(text: str) -> None:
    assert not trace.get_current_span(spans.following(text)).get_span_context().is_valid


def test_what_is_begun_within_a_trace_is_told_by_the_same_text() -> None:
    with spans.within(PARENT):
        inside = spans.traceparent()
        with spans.within(""):
            unchanged = spans.traceparent()

    assert (inside, unchanged, spans.traceparent()) == (PARENT, PARENT, "")


def test_where_no_span_is_sent_its_attributes_are_known_all_the_same() -> None:
    with spans.activity_span("outer", {spans.TASK_ID: "t", spans.ATTEMPT: 1}):
        with spans.activity_span("inner", {spans.ATTEMPT: 2}):
            inner = dict(spans.known())
        outer = dict(spans.known())

    assert inner == {spans.TASK_ID: "t", spans.ATTEMPT: 2}
    assert outer == {spans.TASK_ID: "t", spans.ATTEMPT: 1}
    assert dict(spans.known()) == {}


def test_an_error_leaves_a_span_and_what_was_known_before_it() -> None:
    with pytest.raises(KeyError), spans.activity_span("failing", {spans.TASK_ID: "t"}):
        raise KeyError("no")

    assert dict(spans.known()) == {}


def test_a_workflow_that_is_collected_changes_nothing_where_that_happens(caplog: pytest.LogCaptureFixture) -> None:
    def body() -> Iterator[None]:
        with spans.workflow_span("cut short", {spans.TASK_ID: "of another"}):
            yield

    running = body()
    contextvars.copy_context().run(next, running)
    with spans.activity_span("here", {spans.TASK_ID: "t"}):
        del running
        gc.collect()
        known = dict(spans.known())

    assert known == {spans.TASK_ID: "t"}
    assert caplog.records == []
