"""What goes wrong on the wire, and what the caller is told: kind, waiting time, the part said so far, a text."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from tarry.core.messages import AssistantMessage
from tarry.models import ModelError, ModelErrorKind
from tarry.models.openai import OpenAIModel
from tests.support.asking import API_KEY, QUESTION, Api, ask, ask_in_vain
from tests.support.scripted_provider import (
    CHAT_ANSWER,
    End,
    Pause,
    Reply,
    ScriptedProvider,
    chat_chunk,
    failing,
    sse,
)
from tests.support.waiting import PATIENCE

SAID = sse(chat_chunk(content="Four "), chat_chunk(content="tickets"))
IMPATIENT = QUESTION.model_copy(update={"idle_timeout": 0.2})


def openai_error(message: str, **fields: Any) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


@pytest.mark.parametrize(
    ("status", "body", "kind", "text"),
    [
        (429, openai_error("Slow down.", code="rate_limit_exceeded"), "retryable", "HTTP 429: Slow down."),
        (429, openai_error("Pay first.", code="insufficient_quota"), "permanent", "HTTP 429: Pay first."),
        (429, openai_error("Pay first.", type="billing_hard_limit_reached"), "permanent", "HTTP 429: Pay first."),
        (402, openai_error("Pay first."), "permanent", "HTTP 402: Pay first."),
        (410, openai_error("Gone."), "permanent", "HTTP 410: Gone."),
        (500, "", "retryable", "HTTP 500: Scripted"),
        (502, "<html><body>Bad gateway</body></html>", "retryable", "HTTP 502: Scripted"),
        (503, "upstream is restarting", "retryable", "HTTP 503: upstream is restarting"),
        (400, {"error": "a bare text"}, "permanent", "HTTP 400: a bare text"),
        (404, {"detail": "Not Found"}, "permanent", "HTTP 404: Not Found"),
        (422, {"detail": [{"loc": ["body"], "msg": "no"}]}, "permanent", 'HTTP 422: [{"loc": ["body"], "msg": "no"}]'),
        (400, [{"error": {"code": 400, "message": "In a list."}}], "permanent", "HTTP 400: In a list."),
        (400, [], "permanent", "HTTP 400: Scripted"),
        (400, {"error": {"message": {"odd": 1}, "code": 7}}, "permanent", 'HTTP 400: {"odd": 1}'),
    ],
)
@pytest.mark.parametrize("api", ["chat", "responses"])
async def test_refusal_says_status_and_reason_whatever_shape_its_body_has(
    api: Api, status: int, body: object, kind: ModelErrorKind, text: str
) -> None:
    async with ScriptedProvider(failing(status, body)) as provider:
        error = await ask_in_vain(provider, api=api)

    assert (error.kind, error.text, str(error), error.partial) == (kind, text, text, "")
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("status", "message", "code"),
    [
        (400, "no words", "context_length_exceeded"),
        (400, "This model's maximum context length is 8192 tokens. However, you requested 9001 tokens.", None),
        (400, "Your input exceeds the context window of this model.", "invalid_request_error"),
        (400, "prompt is too long: 213462 tokens > 200000 maximum", None),
        (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).", None),
        (400, "This model's maximum prompt length is 131072 but the request contains 537812 tokens.", None),
        (400, "Please reduce the length of the messages or completion.", None),
        (400, "the request exceeds the available context size, try increasing it", "exceed_context_size_error"),
        (413, "", None),
        (429, "Request too large for m on tokens per min (TPM): Limit 30000, Requested 40000.", "rate_limit_exceeded"),
        (500, "The prompt is greater than the context length.", None),
    ],
)
async def test_too_long_context_is_overflow_in_every_usual_wording(status: int, message: str, code: str | None) -> None:
    async with ScriptedProvider(failing(status, openai_error(message, code=code))) as provider:
        assert (await ask_in_vain(provider)).kind == "overflow"


async def test_busy_token_limit_is_no_overflow() -> None:
    message = "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000."
    async with ScriptedProvider(failing(429, openai_error(message, code="rate_limit_exceeded"))) as provider:
        assert (await ask_in_vain(provider)).kind == "retryable"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "7"}, 7.0),
        ({"Retry_After": "0.5"}, 0.5),
        ({"retry_after_ms": "1500", "Retry_After": "2"}, 1.5),
        ({"Retry_After": "Sun, 01 Mar 2020 12:00:07 GMT", "Date": "Sun, 01 Mar 2020 12:00:00 GMT"}, 7.0),
        ({"Retry_After": "soon"}, None),
        ({"Retry_After": "-7"}, None),
        ({"Retry_After": "NaN"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
async def test_waiting_time_is_told_in_seconds_and_garbage_is_not_told(
    status: int, headers: dict[str, str], seconds: float | None
) -> None:
    async with ScriptedProvider(failing(status, openai_error("Later."), **headers)) as provider:
        error = await ask_in_vain(provider)

    assert (error.kind, error.retry_after) == ("retryable", seconds)


async def test_waiting_time_as_a_date_is_measured_from_now_without_a_server_date() -> None:
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=600), usegmt=True)
    async with ScriptedProvider(failing(429, openai_error("Later."), Retry_After=date)) as provider:
        error = await ask_in_vain(provider)

    assert error.retry_after == pytest.approx(600, abs=5)


@pytest.mark.parametrize(
    ("rest", "end", "text"),
    [
        (b"", "reset", "lost the connection to 127.0.0.1:"),
        (b"", "cut", "lost the connection to 127.0.0.1:"),
        (b"", "clean", "the stream ended before the answer was complete"),
        (sse("[DONE]"), "clean", "the stream ended before the answer was complete"),
        (sse('{"choices": ['), "clean", "a malformed chunk in the stream: Expecting value"),
        (b"data: \xff\xfe\n\n", "clean", "a malformed chunk in the stream: 'utf-8' codec"),
        (sse("7"), "clean", "a malformed chunk in the stream: : Input should be"),
        (sse({"choices": 7}), "clean", "a malformed chunk in the stream: choices: Input should be"),
        (sse(chat_chunk("error")), "clean", "the provider broke the answer off: error"),
        (sse({"error": {"message": "Overloaded.", "code": 503}}), "clean", "the response failed: Overloaded."),
        (sse({"error": {"message": "Oops.", "type": "server_error"}}), "clean", "the response failed: Oops."),
    ],
)
async def test_broken_stream_is_retryable_and_keeps_what_was_said(rest: bytes, end: End, text: str) -> None:
    pieces: list[str] = []
    async with ScriptedProvider(Reply((SAID, Pause(0.02), rest or b": nothing\n\n"), end=end)) as provider:
        error = await ask_in_vain(provider, pieces=pieces)

    assert (error.kind, error.partial, pieces) == ("retryable", "Four tickets", ["Four ", "tickets"])
    assert error.text.startswith(text)
    assert len(provider.requests) == 1


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"code": "insufficient_quota"}, "permanent"),
        ({"type": "invalid_request_error"}, "permanent"),
        ({"code": "context_length_exceeded", "type": "invalid_request_error"}, "overflow"),
        ({"code": 401}, "permanent"),
        ({"code": 429}, "retryable"),
    ],
)
async def test_error_inside_a_stream_is_judged_like_one_before_it(fields: dict[str, Any], kind: ModelErrorKind) -> None:
    async with ScriptedProvider(Reply((SAID, sse(openai_error("No.", **fields))))) as provider:
        error = await ask_in_vain(provider)

    assert (error.kind, error.partial) == (kind, "Four tickets")


@pytest.mark.parametrize("end", ["cut", "reset", "held"])
async def test_complete_answer_counts_although_the_stream_does_not_end_well(end: End) -> None:
    whole = Reply((SAID, sse(chat_chunk("stop")), Pause(0.02)), end=end)
    async with ScriptedProvider(whole) as provider:
        response = await ask(provider, IMPATIENT)

    assert response.message == AssistantMessage(text="Four tickets", stop="stop")


async def test_stream_that_only_pings_after_a_complete_answer_is_left() -> None:
    pings = (b": ping\n\n", Pause(0.05)) * 100
    async with ScriptedProvider(Reply((SAID, sse(chat_chunk("stop")), *pings))) as provider:
        response = await asyncio.wait_for(ask(provider, IMPATIENT), timeout=PATIENCE)

    assert response.message.text == "Four tickets"


@pytest.mark.parametrize("steps", [(), (SAID,)])
async def test_silent_stream_is_given_up_after_the_idle_limit_and_hung_up(steps: tuple[bytes, ...]) -> None:
    async with ScriptedProvider(Reply(steps, end="held")) as provider:
        error = await ask_in_vain(provider, IMPATIENT)
        await asyncio.wait_for(provider.hung_up.wait(), timeout=PATIENCE)

    assert (error.kind, error.partial) == ("retryable", "Four tickets" if steps else "")
    assert error.text.endswith("sent nothing for 0.2 s")


async def test_stream_of_one_byte_at_a_time_outlives_the_idle_limit_many_times() -> None:
    body = sse(chat_chunk(content="slow"), chat_chunk("stop"), "[DONE]")
    drops = [step for byte in body for step in (bytes([byte]), Pause(0.002))]
    quarter, half = len(drops) // 4, len(drops) // 2
    slow = (*drops[:quarter], Pause(0.15), *drops[quarter:half], Pause(0.15), *drops[half:])
    started = asyncio.get_running_loop().time()
    async with ScriptedProvider(Reply(slow)) as provider:
        response = await ask(provider, IMPATIENT)

    assert response.message.text == "slow"
    assert asyncio.get_running_loop().time() - started > 2 * IMPATIENT.idle_timeout


async def test_cancelling_the_request_hangs_up_at_once() -> None:
    async with ScriptedProvider(Reply((SAID,), end="held")) as provider:
        asking = asyncio.create_task(ask(provider))
        await provider.waiting.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(provider.hung_up.wait(), timeout=PATIENCE)


async def test_failing_listener_is_the_callers_own_error_and_hangs_up() -> None:
    def refuse(piece: str) -> None:
        raise ValueError("the listener is broken")

    async with ScriptedProvider(Reply((SAID,), end="held")) as provider:
        model = OpenAIModel("m", base_url=provider.base_url, api_key=API_KEY)
        with pytest.raises(ValueError, match="the listener is broken"):
            await model.respond(QUESTION, refuse)
        await asyncio.wait_for(provider.hung_up.wait(), timeout=PATIENCE)


async def test_page_in_place_of_a_stream_points_to_the_base_url() -> None:
    page = Reply((b"<html>Welcome</html>",), headers={"Content-Type": "text/html"})
    async with ScriptedProvider(page) as provider:
        error = await ask_in_vain(provider)

    assert error.kind == "permanent"
    assert error.text.endswith("answered with text/html, not with a stream: check OPENAI_BASE_URL")


async def test_stream_without_the_right_content_type_is_read_all_the_same() -> None:
    async with ScriptedProvider(Reply(CHAT_ANSWER.steps, headers={"Content-Type": "text/plain"})) as provider:
        assert (await ask(provider)).message.text == "fine"


async def test_refusal_that_is_cut_off_is_retryable() -> None:
    async with ScriptedProvider(Reply((b'{"error": {',), status=500, end="cut")) as provider:
        error = await ask_in_vain(provider)

    assert error.kind == "retryable"
    assert error.text.startswith("lost the connection to 127.0.0.1:")


async def test_unreachable_server_is_retryable_and_named() -> None:
    async with ScriptedProvider() as gone:
        pass

    error = await ask_in_vain(gone)

    assert error.kind == "retryable"
    assert error.text.startswith(f"cannot connect to {gone.base_url.removeprefix('http://').removesuffix('/v1')}: ")


async def test_error_is_one_short_line_without_the_key() -> None:
    body = openai_error(f"Incorrect API\x00 key:\n\t{API_KEY}\ud800 " + "and so on " * 100)
    async with ScriptedProvider(failing(401, body)) as provider:
        error = await ask_in_vain(provider)

    assert error.text.startswith("HTTP 401: Incorrect API key: ***\ufffd and so on")
    assert len(error.text) == 500
    assert API_KEY not in error.text
    assert error.__cause__ is None
    assert error.__suppress_context__


@pytest.mark.parametrize("key", ["sk-sécret", "sk-secret\n"])
async def test_key_with_an_illegal_character_is_named_but_not_shown(key: str) -> None:
    async with ScriptedProvider() as provider:
        model = OpenAIModel("m", base_url=provider.base_url, api_key=key)
        with pytest.raises(ModelError) as raised:
            await model.respond(QUESTION, lambda piece: None)

    assert raised.value.kind == "permanent"
    assert raised.value.text == "a request header has an illegal character: check OPENAI_API_KEY"


@pytest.mark.parametrize("key", [None, ""])
async def test_missing_key_is_told_at_the_request_with_the_variable_to_set(
    key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_ADMIN_KEY"):
        monkeypatch.delenv(name, raising=False)
    model = OpenAIModel("m", base_url="http://127.0.0.1:9/v1", api_key=key)

    with pytest.raises(ModelError, match="set OPENAI_API_KEY") as raised:
        await model.respond(QUESTION, lambda piece: None)

    assert raised.value.kind == "permanent"


@pytest.mark.parametrize(
    "url", ["", "localhost:8000/v1", "ftp://127.0.0.1/v1", "http://127.0.0.1:99999/v1", "http:///"]
)
async def test_unusable_base_url_is_permanent_and_names_the_variable(url: str) -> None:
    model = OpenAIModel("m", base_url=url, api_key=API_KEY)

    with pytest.raises(ModelError, match="OPENAI_BASE_URL") as raised:
        await model.respond(QUESTION, lambda piece: None)

    assert raised.value.kind == "permanent"


async def test_one_model_serves_several_event_loops() -> None:
    async with ScriptedProvider(*[CHAT_ANSWER] * 4) as provider:
        model = OpenAIModel("m", base_url=provider.base_url, api_key=API_KEY)
        texts: list[str] = []

        async def ask_and_close() -> None:
            texts.append((await model.respond(QUESTION, lambda piece: None)).message.text)
            await model.aclose()

        for _ in range(2):
            thread = threading.Thread(target=lambda: asyncio.run(ask_and_close()))
            thread.start()
            await asyncio.to_thread(thread.join)
            texts.append((await model.respond(QUESTION, lambda piece: None)).message.text)
        await model.aclose()

    assert texts == ["fine"] * 4
