"""What a model is sent for a transcript, whatever was recorded in it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.context import EMPTY_INPUT, model_messages
from tarry.core.messages import AssistantMessage, Message, SystemMessage, ToolCallRequest, ToolMessage, UserMessage
from tarry.core.results import missing_result_text
from tarry.core.transcript import (
    Draft,
    Entry,
    ToolFacts,
    Transcript,
    assistant_draft,
    note_draft,
    result_draft,
    user_draft,
)
from tarry.models import ModelRequest
from tarry.testing import check_request

AT = datetime(2026, 3, 1, tzinfo=UTC)


def user(text: str) -> UserMessage:
    return UserMessage(text=text)


def asks(*ids: str, text: str = "") -> AssistantMessage:
    """A response that calls `look` once for each id."""
    calls = tuple(ToolCallRequest(call_id=i, name="look", arguments="{}") for i in ids)
    return AssistantMessage(text=text, calls=calls, stop="tool_use")


def answer(text: str = "answer") -> AssistantMessage:
    return AssistantMessage(text=text)


def result(call_id: str, text: str = "seen") -> ToolMessage:
    return ToolMessage(call_id=call_id, name="look", text=text)


def missing(call_id: str) -> ToolMessage:
    return ToolMessage(call_id=call_id, name="look", text=missing_result_text("look"), is_error=True)


def recorded(messages: Iterable[Message | str]) -> list[Entry]:
    """Entries that hold `messages` in this order; a bare text is a note."""
    transcript = Transcript()
    return [transcript.append(draft_of(message)) for message in messages]


def draft_of(message: Message | str) -> Draft:
    match message:
        case str():
            return note_draft(message, AT, 1)
        case UserMessage():
            return user_draft(message.text, AT, 1)
        case SystemMessage():
            return Draft(kind="system", at=AT, run=1, message=message)
        case AssistantMessage():
            return assistant_draft(message, AT, 1)
        case ToolMessage():
            return result_draft(message, ToolFacts(), AT, 1)


SAME: list[Message] = [user("hi"), asks("a", "b"), result("a"), result("b"), answer(), user("more")]

CASES: dict[str, tuple[list[Message | str], list[Message]]] = {
    "a valid transcript is sent as it is": ([*SAME], [*SAME]),
    "notes are never sent": (["started", user("hi"), "retried", answer()], [user("hi"), answer()]),
    "an aborted response is dropped with its results": (
        [user("hi"), asks("a").model_copy(update={"stop": "aborted"}), result("a"), answer()],
        [user("hi"), answer()],
    ),
    "an empty response is dropped": (
        [user("hi"), answer(" \n"), AssistantMessage(reasoning="hm"), answer()],
        [user("hi"), answer()],
    ),
    "a dropped response does not part a call from its result": (
        [user("hi"), asks("a"), answer(""), result("a")],
        [user("hi"), asks("a"), result("a")],
    ),
    "results stand in call order whatever their order in the transcript": (
        [user("hi"), asks("a", "b", "c"), result("c"), result("a"), result("b")],
        [user("hi"), asks("a", "b", "c"), result("a"), result("b"), result("c")],
    ),
    "results come ahead of a user who spoke meanwhile": (
        [user("hi"), asks("a", "b"), user("stop that"), result("b"), user("now"), result("a")],
        [user("hi"), asks("a", "b"), result("a"), result("b"), user("stop that"), user("now")],
    ),
    "a call without a result gets one error result": (
        [user("hi"), asks("a", "b"), result("b"), user("go on")],
        [user("hi"), asks("a", "b"), missing("a"), result("b"), user("go on")],
    ),
    "a result behind the next response is not the call's": (
        [user("hi"), asks("a"), answer(), result("a")],
        [user("hi"), asks("a"), missing("a"), answer()],
    ),
    "a result without a call is dropped": (
        [user("hi"), result("x"), answer(), result("y"), user("more")],
        [user("hi"), answer(), user("more")],
    ),
    "of two results the first counts": (
        [user("hi"), asks("a"), result("a", "first"), result("a", "second")],
        [user("hi"), asks("a"), result("a", "first")],
    ),
    "a call id used before is renamed in the call and its result": (
        [user("hi"), asks("a"), result("a", "one"), asks("a", "a_2"), result("a_2", "three"), result("a", "two")],
        [
            user("hi"),
            asks("a"),
            result("a", "one"),
            asks("a_2", "a_2_2"),
            result("a_2", "two"),
            result("a_2_2", "three"),
        ],
    ),
    "what comes before the first user message is dropped": (
        [asks("a"), result("a"), answer(), user("hi"), answer()],
        [user("hi"), answer()],
    ),
    "a blank input is sent as words": ([user(" \n")], [user(EMPTY_INPUT)]),
    "nothing is sent while no user has spoken": (["started", answer(), result("a")], []),
    "reasoning and blank text beside calls are not sent back": (
        [user("hi"), asks("a", text=" ").model_copy(update={"reasoning": "secret"}), result("a")],
        [user("hi"), asks("a"), result("a")],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_transcript_becomes_what_a_strict_provider_takes(case: str) -> None:
    given_messages, expected = CASES[case]

    assert list(model_messages(recorded(given_messages))) == expected


@pytest.mark.parametrize(
    ("raw", "sent"),
    [
        ('{"path": "a', {"unreadable_arguments": '{"path": "a'}),
        ("[1]", {"unreadable_arguments": "[1]"}),
        ("", {}),
        ("null", {}),
        ('{"b":1, "a": 2}', {"b": 1, "a": 2}),
    ],
)
def test_arguments_go_back_as_a_json_object_even_when_they_were_none(raw: str, sent: object) -> None:
    response = AssistantMessage(calls=(ToolCallRequest(call_id="a", name="look", arguments=raw),))

    _, message, _ = model_messages(recorded([user("hi"), response, result("a")]))

    assert isinstance(message, AssistantMessage)
    assert json.loads(message.calls[0].arguments) == sent


@pytest.mark.parametrize(("name", "sent"), [("", "unnamed"), ("shell exec", "shell_exec"), ("x" * 80, "x" * 64)])
def test_a_name_no_provider_takes_is_rewritten_in_the_call_and_its_result(name: str, sent: str) -> None:
    response = AssistantMessage(calls=(ToolCallRequest(call_id="a", name=name, arguments="{}"),))

    _, asked, told = model_messages(recorded([user("hi"), response, result("a")]))

    assert isinstance(asked, AssistantMessage)
    assert isinstance(told, ToolMessage)
    assert (asked.calls[0].name, told.name) == (sent, sent)


ids = st.sampled_from(["", " ", "a", "b", "a_2", "call"])
texts = st.sampled_from(["", " ", "text", "größer 🦊"])
names = st.sampled_from(["look", "", "no such tool!", "x" * 70])
arguments = st.sampled_from(["", "null", "{}", '{"a": 1}', '{"a', "[1]", "NaN", '"{}"', '{"a": "\\ud800"}', "5"])
requested_calls = st.builds(ToolCallRequest, call_id=ids, name=names, arguments=arguments)
messages = st.one_of(
    st.builds(UserMessage, text=texts),
    st.builds(
        AssistantMessage,
        text=texts,
        reasoning=texts,
        calls=st.lists(requested_calls, max_size=4).map(tuple),
        stop=st.sampled_from(["stop", "tool_use", "length", "aborted"]),
    ),
    st.builds(ToolMessage, call_id=ids, name=names, text=texts),
)
transcripts = st.lists(st.one_of(messages, st.just("a note")), max_size=16).map(recorded)


def request_of(sent: tuple[Message, ...]) -> ModelRequest:
    return ModelRequest(messages=sent, session_id="c")


@given(transcripts)
def test_any_transcript_gives_a_request_that_a_strict_provider_takes(entries: list[Entry]) -> None:
    sent = model_messages(entries)

    if any(isinstance(entry.message, UserMessage) for entry in entries):
        check_request(request_of(sent))
    else:
        assert sent == ()


@given(transcripts)
def test_every_input_is_sent_once_and_in_order(entries: list[Entry]) -> None:
    said = [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]

    sent = [message.text for message in model_messages(entries) if isinstance(message, UserMessage)]

    assert sent == [text if text.strip() else EMPTY_INPUT for text in said]


@given(transcripts)
def test_same_entries_give_the_same_bytes(entries: list[Entry]) -> None:
    again = [Entry.model_validate_json(entry.model_dump_json()) for entry in entries]

    assert request_of(model_messages(entries)).model_dump_json() == request_of(model_messages(again)).model_dump_json()


@given(transcripts, st.one_of(st.builds(UserMessage, text=st.just("more")), st.just(answer())))
def test_a_later_entry_leaves_the_earlier_messages_as_they_were(entries: list[Entry], later: Message) -> None:
    transcript = Transcript(tail=list(entries))
    before = model_messages(entries)

    longer = model_messages([*entries, transcript.append(draft_of(later))])

    assert longer[: len(before)] == before
