"""Chat completions: the request as a strict provider takes it, and answers out of chunks of every make."""

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
from tarry.models import ModelInfo, ModelRequest
from tarry.models.openai import OpenAIModel
from tests.support.asking import API_KEY, QUESTION, ask
from tests.support.scripted_provider import CHAT_ANSWER, Reply, ScriptedProvider, chat_call, chat_chunk, sse

SEARCH = ToolSpec(name="search", description="Search logs", parameters={"type": "object", "properties": {}})


def call(call_id: str, name: str, arguments: str) -> ToolCallRequest:
    return ToolCallRequest(call_id=call_id, name=name, arguments=arguments)


async def answer_to(*events: object) -> AssistantMessage:
    async with ScriptedProvider(Reply((sse(*events, "[DONE]"),))) as provider:
        return (await ask(provider)).message


async def body_of(request: ModelRequest, **options: Any) -> dict[str, Any]:
    async with ScriptedProvider(CHAT_ANSWER) as provider:
        await ask(provider, request, **options)
    return provider.requests[0].body


async def body_at(provider: ScriptedProvider, base_url: str, session_id: str) -> dict[str, Any]:
    model = OpenAIModel("m", base_url=base_url, api_key=API_KEY)
    await model.respond(QUESTION.model_copy(update={"session_id": session_id}), lambda piece: None)
    await model.aclose()
    return provider.requests[-1].body


async def test_request_carries_instructions_messages_tools_and_asks_for_usage() -> None:
    messages = (
        UserMessage(text="Find it."),
        AssistantMessage(text="Looking.", reasoning="hm", calls=(call("c1", "search", ' {"q" :1}'),), stop="tool_use"),
        ToolMessage(call_id="c1", name="search", text="Error: no logs", is_error=True),
        AssistantMessage(calls=(call("c2", "search", "{}"),), stop="tool_use"),
        ToolMessage(call_id="c2", name="search", text="line 1"),
        AssistantMessage(text="Found.", stop="stop"),
        UserMessage(text="Thanks."),
        SystemMessage(text="New tools: search."),
    )
    request = ModelRequest(messages=messages, instructions="Be brief.", tools=(SEARCH,), session_id="conv-1")

    async with ScriptedProvider(CHAT_ANSWER) as provider:
        await ask(provider, request)

    received = provider.requests[0]
    assert received.path == "/v1/chat/completions"
    assert received.headers["authorization"] == f"Bearer {API_KEY}"
    assert received.body == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Find it."},
            {
                "role": "assistant",
                "content": "Looking.",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "search", "arguments": ' {"q" :1}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "Error: no logs"},
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "c2", "type": "function", "function": {"name": "search", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "c2", "content": "line 1"},
            {"role": "assistant", "content": "Found."},
            {"role": "user", "content": "Thanks."},
            {"role": "system", "content": "New tools: search."},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "search",
                    "description": "Search logs",
                    "parameters": {"type": "object", "properties": {}},
                },
            }
        ],
    }


async def test_request_without_instructions_or_tools_leaves_them_out() -> None:
    assert await body_of(QUESTION) == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "user", "content": "What is open?"}],
    }


@pytest.mark.parametrize("is_closed", [True, False])
async def test_form_of_the_answer_is_asked_for_and_strictly_only_where_it_is_taken(is_closed: bool) -> None:
    fields = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    schema = fields | ({"additionalProperties": False} if is_closed else {})
    output = OutputSchema(name="Number", json_schema=schema)

    body = await body_of(QUESTION.model_copy(update={"output": output}))

    form = {"name": "Number", "schema": schema, "strict": is_closed}
    assert body["response_format"] == {"type": "json_schema", "json_schema": form}


@pytest.mark.parametrize(
    ("base_url", "info", "structured"),
    [
        (None, None, True),
        ("https://eu.api.openai.com/v1", None, True),
        ("http://localhost:8080/v1", None, False),
        ("http://localhost:8080/v1", ModelInfo(structured=True), True),
        (None, ModelInfo(structured=False), False),
    ],
)
def test_only_openai_itself_is_known_to_enforce_a_form(
    base_url: str | None, info: ModelInfo | None, structured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)

    assert OpenAIModel("m", base_url=base_url, info=info).info.structured is structured


async def test_extra_fields_win_and_none_takes_a_field_out() -> None:
    body = await body_of(QUESTION, extra_body={"temperature": 0, "stream_options": None, "model": "other"})

    assert body == {"model": "other", "stream": True, "temperature": 0, "messages": body["messages"]}


async def test_only_openai_itself_is_told_a_cache_key_that_is_one_for_the_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with ScriptedProvider(*[CHAT_ANSWER] * 4) as provider:
        elsewhere = await body_at(provider, provider.base_url, "conv-1")
        # As a proxy it is sent what is meant for OpenAI.
        monkeypatch.setenv("HTTP_PROXY", provider.base_url.removesuffix("/v1"))
        keys = [
            (await body_at(provider, "http://api.openai.com/v1", session))["prompt_cache_key"]
            for session in ("conv-1", "conv-1", "c" * 999)
        ]

    assert "prompt_cache_key" not in elsewhere
    assert keys[0] == keys[1] != keys[2]
    assert {len(key) for key in keys} == {64}


async def test_lone_surrogates_and_nan_are_replaced_in_everything_that_is_sent() -> None:
    tool = ToolSpec(name="t", description="\ud800", parameters={"default": float("nan")})
    request = ModelRequest(
        messages=(UserMessage(text="a\udfffb"),), instructions="\ud83d", tools=(tool,), session_id="s"
    )

    body = await body_of(request)

    assert [message["content"] for message in body["messages"]] == ["\ufffd", "a\ufffdb"]
    assert body["tools"][0]["function"] == {"name": "t", "description": "\ufffd", "parameters": {"default": None}}


async def test_character_split_over_two_chunks_arrives_whole_and_a_lone_half_is_replaced() -> None:
    pieces: list[str] = []
    halves = [chat_chunk(content=text) for text in ("hi \ud83d", "\ude00!", "\ude00", "x\ud83d")]
    async with ScriptedProvider(Reply((sse(*halves, chat_chunk("stop")),))) as provider:
        response = await ask(provider, pieces=pieces)

    assert pieces == ["hi ", "😀!", "\ufffd", "x", "\ufffd"]
    assert response.message.text == "hi 😀!\ufffdx\ufffd"


async def test_arguments_in_fragments_are_put_together_per_call() -> None:
    message = await answer_to(
        chat_chunk(role="assistant", content=None),
        chat_call(0, "c1", "search", ""),
        chat_call(1, "c2", "open", '{"id":'),
        chat_call(0, arguments='{"q": '),
        chat_call(1, arguments=" 7}"),
        chat_call(0, arguments='"x"}'),
        chat_chunk("tool_calls"),
    )

    assert message == AssistantMessage(
        calls=(call("c1", "search", '{"q": "x"}'), call("c2", "open", '{"id": 7}')), stop="tool_use"
    )


@pytest.mark.parametrize(
    ("events", "calls"),
    [
        ([chat_call(0, None, "a", "{}")], [("", "a", "{}")]),
        ([chat_call(None, "c1", "a", "{}"), chat_call(None, "c2", "b", "{}")], [("c1", "a", "{}"), ("c2", "b", "{}")]),
        ([chat_call(None, None, "a", '{"q":'), chat_call(None, None, None, "1}")], [("", "a", '{"q":1}')]),
        ([chat_call(None, None, "a", "{}"), chat_call(None, None, "a", "{}")], [("", "a", "{}"), ("", "a", "{}")]),
        ([chat_call(0, "c1", "a", "{}"), chat_call(1, "c1", "a", "{}")], [("c1", "a", "{}"), ("c1", "a", "{}")]),
        ([chat_call(0, "c1", "a", "{}"), chat_call(0, "c2", "a", "{}")], [("c1", "a", "{}"), ("c2", "a", "{}")]),
        ([chat_call(0, "c1", "a", '{"q":'), chat_call(0, "c1", "a", "1}")], [("c1", "a", '{"q":1}')]),
        ([chat_call(0, None, "a"), chat_call(0, "c1", None, "{}")], [("c1", "a", "{}")]),
        ([chat_call(0, "c1", "a", None)], [("c1", "a", "")]),
        ([chat_call(0, "c1", None, "{}")], [("c1", "", "{}")]),
        ([chat_call(0, "c1", "a", '{"q": "\ud800"}')], [("c1", "a", '{"q": "\ufffd"}')]),
        (
            [chat_chunk(tool_calls=[{"id": 7, "function": {"name": "a", "arguments": {"q": 1}}}])],
            [("7", "a", '{"q": 1}')],
        ),
        ([chat_chunk(tool_calls=[{}])], [("", "", "")]),
    ],
)
async def test_calls_keep_missing_and_repeated_ids_and_never_merge(
    events: list[object], calls: list[tuple[str, str, str]]
) -> None:
    message = await answer_to(*events, chat_chunk("tool_calls"))

    assert [(made.call_id, made.name, made.arguments) for made in message.calls] == calls
    assert message.stop == "tool_use"


@pytest.mark.parametrize(
    ("events", "stop"),
    [
        ([chat_chunk("stop")], "stop"),
        ([chat_chunk("end_turn")], "stop"),
        ([chat_call(0, "c1", "a", "{}"), chat_chunk("stop")], "tool_use"),
        ([chat_chunk("tool_calls", content="no call after all")], "stop"),
        ([chat_call(0, "c1", "a", '{"q": "cut'), chat_chunk("length")], "length"),
        ([chat_chunk("content_filter")], "refusal"),
        ([chat_chunk(refusal="I will not."), chat_chunk("stop")], "refusal"),
    ],
)
async def test_stop_reason_is_one_of_ours(events: list[object], stop: StopReason) -> None:
    assert (await answer_to(*events)).stop == stop


async def test_refusal_is_the_text_of_the_answer() -> None:
    message = await answer_to(chat_chunk(refusal="I will "), chat_chunk(refusal="not."), chat_chunk("stop"))

    assert message == AssistantMessage(text="I will not.", stop="refusal")


@pytest.mark.parametrize(
    "deltas",
    [
        [{"reasoning_content": "let me "}, {"reasoning_content": "see"}],
        [{"reasoning": "let me "}, {"reasoning": "see"}],
        [{"reasoning": "let me see", "reasoning_content": "let me see"}],
        [{"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "let me see"}]}]}],
    ],
)
async def test_reasoning_is_kept_apart_from_the_text_and_not_streamed(deltas: list[dict[str, Any]]) -> None:
    pieces: list[str] = []
    events = [*(chat_chunk(**delta) for delta in deltas), chat_chunk("stop", content="yes")]
    async with ScriptedProvider(Reply((sse(*events),))) as provider:
        message = (await ask(provider, pieces=pieces)).message

    assert message == AssistantMessage(text="yes", reasoning="let me see", stop="stop")
    assert pieces == ["yes"]


async def test_text_in_parts_is_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]

    assert (await answer_to(chat_chunk("stop", content=parts))).text == "ab"


async def test_usage_is_read_from_the_last_chunk_that_has_it_cached_tokens_included() -> None:
    tokens = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 8}}
    early = {**chat_chunk(content="x"), "usage": {"prompt_tokens": 10, "completion_tokens": 1}}
    events = [early, {**chat_chunk("stop"), "usage": None}, {"choices": [], "usage": tokens}, "[DONE]"]
    async with ScriptedProvider(Reply((sse(*events),))) as provider:
        response = await ask(provider)

    assert response.usage == Usage(input_tokens=10, output_tokens=3, cached_tokens=8)


async def test_missing_usage_counts_nothing() -> None:
    async with ScriptedProvider(CHAT_ANSWER) as provider:
        assert (await ask(provider)).usage == Usage()


async def test_chunks_that_leave_out_or_null_everything_else_are_read() -> None:
    message = await answer_to(
        {"choices": [], "prompt_filter_results": []},
        {"choices": None, "usage": {}},
        {"choices": [{"delta": None}]},
        {"choices": [{"delta": {"content": "a", "tool_calls": None}}]},
        {"choices": [{"index": 1, "delta": {"content": "another choice"}, "finish_reason": "length"}]},
        {"choices": [{"finish_reason": "stop"}]},
    )

    assert message == AssistantMessage(text="a", stop="stop")


async def test_a_thinking_level_is_sent_as_far_as_the_model_takes_it_and_never_when_it_is_off() -> None:
    thinking = QUESTION.model_copy(update={"thinking": "max"})

    assert "reasoning_effort" not in await body_of(QUESTION)
    assert (await body_of(thinking))["reasoning_effort"] == "high"
    assert (await body_of(thinking, info=ModelInfo(thinking=("minimal", "low"))))["reasoning_effort"] == "low"
    assert "reasoning_effort" not in await body_of(thinking, info=ModelInfo(thinking=()))
    assert (await body_of(thinking, extra_body={"reasoning_effort": "none"}))["reasoning_effort"] == "none"
