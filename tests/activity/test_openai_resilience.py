"""The adapter against llmock, a provider that fails as real ones do and judges its client.

The adapter never retries, so these tests do what the generation does: try again what is retryable, no
sooner than the provider asked.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from llmock.pytest_plugin import LLMock
from llmock.scenarios import Reply
from llmock.simulation import MockResponseSettings
from llmock.testing import LLMockServer

from tarry.core.messages import AssistantMessage, SystemMessage, ToolMessage, ToolSpec, Usage, UserMessage
from tarry.models import Model, ModelError, ModelErrorKind, ModelRequest, ModelResponse
from tarry.models.openai import OpenAIModel
from tests.support.asking import QUESTION, Api

OPEN_TICKET = ToolSpec(
    name="open_ticket",
    description="Open a ticket",
    parameters={"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]},
)


@pytest.fixture(params=["chat", "responses"])
async def model(request: pytest.FixtureRequest, llmock: LLMock) -> AsyncIterator[OpenAIModel]:
    """A model that knows its server and key from the environment alone."""
    api: Api = request.param
    model = OpenAIModel("gpt-4o-mini", api=api)
    yield model
    await model.aclose()


class Run:
    """What became of one model request and its retries."""

    def __init__(self) -> None:
        self.errors: list[ModelError] = []
        self.response: ModelResponse | None = None

    @property
    def kinds(self) -> list[ModelErrorKind]:
        return [error.kind for error in self.errors]

    @property
    def text(self) -> str:
        assert self.response is not None
        return self.response.message.text


async def run_with_retries(model: Model, request: ModelRequest = QUESTION) -> Run:
    run = Run()
    for attempt in range(4):
        try:
            run.response = await model.respond(request, lambda piece: None)
            return run
        except ModelError as error:
            run.errors.append(error)
            if error.kind != "retryable":
                return run
            await asyncio.sleep(error.retry_after if error.retry_after is not None else 0.05 * 2**attempt)
    return run


async def test_answer_is_streamed_piece_by_piece_and_returned_whole_with_usage(
    model: OpenAIModel, llmock: LLMock
) -> None:
    llmock.reply("Four tickets are open.")
    pieces: list[str] = []

    response = await model.respond(QUESTION, pieces.append)

    assert response.message == AssistantMessage(text="Four tickets are open.", stop="stop")
    assert "".join(pieces) == response.message.text
    assert len(pieces) > 1
    assert response.usage == Usage(input_tokens=3, output_tokens=5)
    assert model.name == "openai/gpt-4o-mini"
    llmock.assert_resilient(strict=True)


async def test_tool_call_and_its_result_make_the_round_trip(model: OpenAIModel, llmock: LLMock) -> None:
    llmock.call_tool("open_ticket", {"title": "Checkout is down, twice"}).reply("Opened.")
    request = QUESTION.model_copy(update={"tools": (OPEN_TICKET,), "instructions": "Be brief."})

    asked = (await model.respond(request, lambda piece: None)).message
    result = ToolMessage(call_id=asked.calls[0].call_id, name="open_ticket", text="ticket 7")
    answered = (
        await model.respond(
            request.model_copy(update={"messages": (*request.messages, asked, result)}), lambda piece: None
        )
    ).message

    assert asked.stop == "tool_use"
    assert [(call.name, call.arguments) for call in asked.calls] == [
        ("open_ticket", '{"title": "Checkout is down, twice"}')
    ]
    assert answered == AssistantMessage(text="Opened.", stop="stop")
    llmock.assert_resilient(strict=True)


async def test_system_message_in_the_middle_is_taken(model: OpenAIModel, llmock: LLMock) -> None:
    llmock.reply("Understood.")
    messages = (*QUESTION.messages, AssistantMessage(text="Four."), UserMessage(text="And now?"))
    change = SystemMessage(text="Tools that are gone, not to be called: open_ticket.")
    request = QUESTION.model_copy(update={"messages": (*messages, change), "instructions": "Be brief."})

    answered = (await model.respond(request, lambda piece: None)).message

    assert answered == AssistantMessage(text="Understood.", stop="stop")
    llmock.assert_resilient(strict=True)


async def test_cut_off_answer_says_length(model: OpenAIModel, llmock: LLMock) -> None:
    llmock.add(Reply(text="Four tick", finish_reason="length"))

    response = await model.respond(QUESTION, lambda piece: None)

    assert response.message == AssistantMessage(text="Four tick", stop="length")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 422])
async def test_refusal_that_cannot_heal_is_permanent_and_asked_once(
    model: OpenAIModel, llmock: LLMock, status: int
) -> None:
    llmock.fail(status, message="No such thing.")

    run = await run_with_retries(model)

    assert run.kinds == ["permanent"]
    assert run.errors[0].text == f"HTTP {status}: No such thing."
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


@pytest.mark.parametrize("status", [408, 409, 500, 502, 503, 529])
async def test_outage_is_retryable_and_the_next_request_is_answered(
    model: OpenAIModel, llmock: LLMock, status: int
) -> None:
    llmock.fail(status, retry_after=0.0).reply("Back again.")

    run = await run_with_retries(model)

    assert (run.kinds, run.text) == (["retryable"], "Back again.")
    llmock.assert_resilient(strict=True)


async def test_rate_limit_carries_the_wait_and_waiting_it_satisfies_the_provider(
    model: OpenAIModel, llmock: LLMock
) -> None:
    llmock.rate_limit(times=2, retry_after=0.2).reply("Now.")

    run = await run_with_retries(model)

    assert (run.kinds, run.text) == (["retryable"] * 2, "Now.")
    assert [error.retry_after for error in run.errors] == [0.2, 0.2]
    llmock.assert_resilient(strict=True)


async def test_too_long_context_is_overflow_and_asked_once(model: OpenAIModel, llmock: LLMock) -> None:
    llmock.context_overflow()

    run = await run_with_retries(model)

    assert run.kinds == ["overflow"]
    assert len(llmock.requests) == 1
    llmock.assert_resilient(strict=True)


LONG_ANSWER = "Four tickets are open, and two of them are about the checkout."
FAULTS: dict[str, Callable[[LLMock, int], Any]] = {
    "connection dropped": lambda llmock, chunks: llmock.disconnect(after_chunks=chunks),
    "ended early without a reason": lambda llmock, chunks: llmock.truncate(after_chunks=chunks),
    "chunk that is no JSON": lambda llmock, chunks: llmock.corrupt(after_chunks=chunks),
    "gone silent": lambda llmock, chunks: llmock.stall(after_chunks=chunks, seconds=30),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_broken_stream_is_retryable_with_the_part_said_so_far(
    model: OpenAIModel, llmock: LLMock, fault: str
) -> None:
    # Paced, so that the provider is still sending, and sees it, when the adapter hangs up on a bad chunk.
    llmock.pace(10).reply(LONG_ANSWER, times=2)
    some_words_are_out = 6
    FAULTS[fault](llmock, some_words_are_out)

    run = await run_with_retries(model, QUESTION.model_copy(update={"idle_timeout": 0.3}))

    assert (run.kinds, run.text) == (["retryable"], LONG_ANSWER)
    partial = run.errors[0].partial
    assert partial
    assert run.text.startswith(partial)
    assert len(llmock.requests) == 2
    llmock.assert_resilient(strict=True)


async def test_many_conversations_share_one_model_and_get_their_own_answers(
    model: OpenAIModel, llmock: LLMock, llmock_server: LLMockServer
) -> None:
    llmock_server.app.state.mock_response_settings = MockResponseSettings(response_style="echo")
    questions = [ModelRequest(messages=(UserMessage(text=f"question {n}"),), session_id=f"conv-{n}") for n in range(8)]

    responses = await asyncio.gather(*(model.respond(question, lambda piece: None) for question in questions))

    assert [response.message.text for response in responses] == [f"Hello! You said: question {n}" for n in range(8)]
    llmock.assert_resilient(strict=True)
