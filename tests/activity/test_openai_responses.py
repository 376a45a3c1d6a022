"""The responses API: the request as a strict provider takes it, and answers out of its events."""

from __future__ import annotations

from typing import Any

import pytest

from tarry.core.messages import (
    AssistantMessage,
    StopReason,
    SystemMessage,
    ToolCallRequest,
    ToolMessage,
    ToolSpec,
    Usage,
    UserMessage,
)
from tarry.core.output import OutputSchema
from tarry.models import ModelErrorKind, ModelRequest
from tests.support.asking import QUESTION, ask, ask_in_vain
from tests.support.scripted_provider import Reply, ScriptedProvider, sse


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": 0, **fields}


def text(delta: str) -> dict[str, Any]:
    return event("output_text.delta", output_index=0, item_id="m", content_index=0, delta=delta)


def item(kind: str, place: int | None, **fields: Any) -> dict[str, Any]:
    return event(f"output_item.{kind}", output_index=place, item={"type": "function_call", **fields})


def arguments(place: int | None, delta: str) -> dict[str, Any]:
    return event("function_call_arguments.delta", output_index=place, item_id="f", delta=delta)


def end(status: str = "completed", **fields: Any) -> dict[str, Any]:
    return event(status, response={"id": "r", "status": status, **fields})


async def answer_to(*events: object) -> AssistantMessage:
    async with ScriptedProvider(Reply((sse(*events),))) as provider:
        return (await ask(provider, api="responses")).message


async def test_request_carries_instructions_items_and_tools_and_stores_nothing() -> None:
    calls = (
        ToolCallRequest(call_id="c1", name="search", arguments='{"q": 1}'),
        ToolCallRequest(call_id="c2", name="made_up", arguments=' {"q" :2}'),
    )
    messages = (
        UserMessage(text="Find it."),
        AssistantMessage(text="Looking.", reasoning="hm", calls=calls, stop="tool_use"),
        ToolMessage(call_id="c1", name="search", text="line 1"),
        ToolMessage(call_id="c2", name="made_up", text="Error: no such tool", is_error=True),
        AssistantMessage(text="Found.", stop="stop"),
        UserMessage(text="Thanks."),
        SystemMessage(text="New tools: search."),
    )
    search = ToolSpec(name="search", description="Search logs", parameters={"type": "object", "properties": {}})
    request = ModelRequest(messages=messages, instructions="Be brief.", tools=(search,), session_id="conv-1")

    async with ScriptedProvider(Reply((sse(text("fine"), end()),))) as provider:
        await ask(provider, request, api="responses")

    assert provider.requests[0].path == "/v1/responses"
    assert provider.requests[0].body == {
        "model": "m",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "input": [
            {"type": "message", "role": "user", "content": "Find it."},
            {"type": "message", "role": "assistant", "content": "Looking."},
            {"type": "function_call", "call_id": "c1", "name": "search", "arguments": '{"q": 1}'},
            {"type": "function_call", "call_id": "c2", "name": "made_up", "arguments": ' {"q" :2}'},
            {"type": "function_call_output", "call_id": "c1", "output": "line 1"},
            {"type": "function_call_output", "call_id": "c2", "output": "Error: no such tool"},
            {"type": "message", "role": "assistant", "content": "Found."},
            {"type": "message", "role": "user", "content": "Thanks."},
            {"type": "message", "role": "developer", "content": "New tools: search."},
        ],
        "tools": [
            {
                "type": "function",
                "name": "search",
                "description": "Search logs",
                "parameters": {"type": "object", "properties": {}},
                "strict": False,
            }
        ],
    }


async def test_request_without_instructions_or_tools_leaves_them_out() -> None:
    async with ScriptedProvider(Reply((sse(text("fine"), end()),))) as provider:
        await ask(provider, api="responses")

    assert sorted(provider.requests[0].body) == ["input", "model", "store", "stream"]


async def test_form_of_the_answer_is_asked_for() -> None:
    output = OutputSchema(name="Number", json_schema={"type": "object"})
    async with ScriptedProvider(Reply((sse(text("fine"), end()),))) as provider:
        await ask(provider, QUESTION.model_copy(update={"output": output}), api="responses")

    form = {"type": "json_schema", "name": "Number", "schema": {"type": "object"}, "strict": False}
    assert provider.requests[0].body["text"] == {"format": form}


async def test_text_reasoning_and_usage_are_read_and_unknown_events_passed_over() -> None:
    pieces: list[str] = []
    usage = {"input_tokens": 10, "output_tokens": 3, "input_tokens_details": {"cached_tokens": 8}}
    events = (
        event("created", response={"status": "in_progress"}),
        event("reasoning_summary_text.delta", delta="let me "),
        event("reasoning_text.delta", delta="see"),
        event("output_item.added", output_index=0, item={"type": "message", "content": []}),
        event("made_up_in_the_future", delta={"odd": 1}),
        {"no": "type"},
        text("hi \ud83d"),
        text("\ude00"),
        event("output_item.done", output_index=0, item={"type": "message", "content": [{"text": "hi"}]}),
        end(usage=usage),
    )
    async with ScriptedProvider(Reply((sse(*events),))) as provider:
        response = await ask(provider, api="responses", pieces=pieces)

    assert response.message == AssistantMessage(text="hi 😀", reasoning="let me see", stop="stop")
    assert response.usage == Usage(input_tokens=10, output_tokens=3, cached_tokens=8)
    assert pieces == ["hi ", "😀"]


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        (
            [
                item("added", 0, call_id="c1", name="a", arguments=""),
                item("added", 1, call_id="c2", name="b", arguments=""),
                arguments(1, '{"q":'),
                arguments(0, "{}"),
                arguments(1, "1}"),
                item("done", 0, call_id="c1", name="a", arguments="{}"),
                item("done", 1, call_id="c2", name="b", arguments='{"q":1}'),
            ],
            [("c1", "a", "{}"), ("c2", "b", '{"q":1}')],
        ),
        ([item("added", 0, call_id="c1", name="a"), arguments(0, '{"q": "cut')], [("c1", "a", '{"q": "cut')]),
        ([item("done", 0, call_id="c1", name="a", arguments="{}")], [("c1", "a", "{}")]),
        ([item("done", 0, call_id="c1", name="a", arguments={"q": 1})], [("c1", "a", '{"q": 1}')]),
        ([item("added", None, name="a"), arguments(None, "{"), arguments(None, "}")], [("", "a", "{}")]),
        ([item("done", 0, call_id="c1", name="a"), item("done", 1, call_id="c1", name="a")], [("c1", "a", "")] * 2),
    ],
)
async def test_calls_are_put_together_from_items_and_fragments(
    events: list[object], calls: list[tuple[str, str, str]]
) -> None:
    message = await answer_to(*events, end())

    assert [(made.call_id, made.name, made.arguments) for made in message.calls] == calls
    assert message.stop == "tool_use"


@pytest.mark.parametrize(
    ("events", "stop"),
    [
        ([text("x"), end()], "stop"),
        ([text("x"), end("incomplete", incomplete_details={"reason": "max_output_tokens"})], "length"),
        ([text("x"), end("incomplete", incomplete_details={"reason": "content_filter"})], "refusal"),
        ([text("x"), end("incomplete")], "length"),
        ([item("done", 0, call_id="c", name="a", arguments="{"), end("incomplete")], "length"),
        ([event("refusal.delta", delta="x"), end()], "refusal"),
    ],
)
async def test_stop_reason_is_one_of_ours(events: list[object], stop: StopReason) -> None:
    assert (await answer_to(*events)).stop == stop


@pytest.mark.parametrize(
    ("failure", "kind", "says"),
    [
        (end("failed", error={"code": "server_error", "message": "Oops."}), "retryable", "Oops."),
        (end("failed", error={"code": "rate_limit_exceeded", "message": "Slow."}), "retryable", "Slow."),
        (end("failed", error={"code": "invalid_prompt", "message": "No."}), "permanent", "No."),
        (end("failed", error={"code": "insufficient_quota", "message": "Pay."}), "permanent", "Pay."),
        (end("failed", error={"code": "context_length_exceeded", "message": "Long."}), "overflow", "Long."),
        (end("failed"), "retryable", ""),
        ({"type": "error", "code": "server_error", "message": "Oops.", "param": None}, "retryable", "Oops."),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "No."}}, "permanent", "No."),
        ({"type": "response.output_text.delta", "delta": 7.5, "output_index": "x"}, "retryable", None),
        ({"type": "response.completed"}, "retryable", None),
    ],
)
async def test_failed_response_is_judged_by_its_code_and_keeps_what_was_said(
    failure: dict[str, Any], kind: ModelErrorKind, says: str | None
) -> None:
    async with ScriptedProvider(Reply((sse(text("Four "), text("tickets"), failure),))) as provider:
        error = await ask_in_vain(provider, api="responses")

    assert (error.kind, error.partial) == (kind, "Four tickets")
    assert error.text == f"the response failed: {says}".strip() if says is not None else "malformed" in error.text


async def test_stream_that_ends_before_the_response_does_is_retryable() -> None:
    async with ScriptedProvider(Reply((sse(text("Four ")),))) as provider:
        error = await ask_in_vain(provider, QUESTION, api="responses")

    assert (error.kind, error.partial) == ("retryable", "Four ")
