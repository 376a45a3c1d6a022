"""Whatever a provider does: bounded durable retries, a clear end, and a conversation that stays usable (spec §6.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from llmock.pytest_plugin import LLMock
from llmock.scenarios import Fail, Match, Reply, StreamFault
from temporalio.client import Client

from tarry.core.messages import AssistantMessage
from tarry.core.protocol import GENERATION
from tarry.embedded import EmbeddedServer
from tarry.models import Model, ModelRequest, ModelResponse
from tarry.models.openai import OpenAIModel
from tarry.testing import ScriptedModel, call
from tarry.tools import tool
from tests.support import scripted_provider as raw
from tests.support.answers import Answer, answer_to, ask
from tests.support.asking import API_KEY
from tests.support.payloads import histories_of
from tests.support.scripted_provider import CHAT_ANSWER, Pause, ScriptedProvider, chat_chunk, failing, sse
from tests.support.stage import Stage, app_of, idle_stage, stage
from tests.support.waiting import PATIENCE, eventually

LONG_ANSWER = "Four tickets are open, and two of them are about the checkout."


class Routed:
    """Sends each conversation to the model that its first message names, so that each has faults of its own."""

    name = "test/routed"

    def __init__(self, models: Mapping[str, Model]) -> None:
        self._models = models

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        return await self._models[request.messages[0].text].respond(request, on_text)


def speaking_to(*providers: ScriptedProvider) -> Routed:
    """The real adapter; conversation "0" talks to the first provider, and so on."""
    return Routed(
        {
            str(number): OpenAIModel("m", base_url=provider.base_url, api_key=API_KEY)
            for number, provider in enumerate(providers)
        }
    )


async def ask_each(on: Stage, names: list[str]) -> list[Answer]:
    """Ask as many new conversations at once."""
    return list(await asyncio.gather(*(ask(on.harness.conversation(), name) for name in names)))


async def waits_of(client: Client, conversation_id: str) -> list[float]:
    """The durable timers of a conversation's runs, in seconds."""
    return [
        event.timer_started_event_attributes.start_to_fire_timeout.ToTimedelta() / timedelta(seconds=1)
        for history in await histories_of(client, conversation_id)
        for event in history.events
        if event.HasField("timer_started_event_attributes")
    ]


async def test_refusal_that_cannot_heal_ends_the_run_at_once_and_the_next_input_is_answered(
    server: EmbeddedServer, tmp_path: Path, llmock: LLMock
) -> None:
    refusals = {
        "400": Fail(400, message="No such field.", match=Match(model="400")),
        "401": Fail(401, message="Who are you?", match=Match(model="401")),
        "404": Fail(404, message="No such model.", match=Match(model="404")),
        "429": Fail(429, message="Pay first.", code="insufficient_quota", match=Match(model="429")),
    }
    llmock.add(*refusals.values(), *(Reply(text="fine", match=Match(model=name)) for name in refusals))
    models = {name: OpenAIModel(name, base_url=llmock.base_url(), api_key=API_KEY) for name in refusals}
    async with stage(server, app_of(Routed(models)), tmp_path) as on:
        conversations = {name: on.harness.conversation() for name in refusals}
        refused = [await ask(conversation, name) for name, conversation in conversations.items()]
        answered = [await ask(conversation, "and now?") for conversation in conversations.values()]

    assert [(answer.end, answer.detail) for answer in refused] == [
        ("unanswered model_error", "HTTP 400: No such field."),
        ("unanswered model_error", "HTTP 401: Who are you?"),
        ("unanswered model_error", "HTTP 404: No such model."),
        ("unanswered model_error", "HTTP 429: Pay first."),
    ]
    assert [(answer.end, answer.text) for answer in answered] == [("done", "fine")] * 4
    assert len(llmock.requests) == 8
    llmock.assert_resilient()


async def test_fault_that_may_heal_is_retried_and_the_answer_is_whole(
    server: EmbeddedServer, tmp_path: Path, llmock: LLMock
) -> None:
    def cut(kind: Any, name: str) -> StreamFault:
        return StreamFault(kind, after_chunks=6, stall_seconds=30.0, match=Match(model=name, stream=True))

    # Those that fail before a word is out, then those that break in the middle of the answer.
    early = {
        "429": Fail(429, retry_after=1.0, match=Match(model="429")),
        "500": Fail(500, match=Match(model="500")),
        "529": Fail(529, match=Match(model="529")),
    }
    broken = {kind: cut(kind, kind) for kind in ("disconnect", "truncate", "malformed", "stall")}
    faults: dict[str, Any] = {**early, **broken}
    llmock.pace(10).add(*faults.values())
    llmock.add(*(Reply(text=LONG_ANSWER, times=2, match=Match(model=name)) for name in faults))
    models = {name: OpenAIModel(name, base_url=llmock.base_url(), api_key=API_KEY) for name in faults}
    async with stage(server, app_of(Routed(models)), tmp_path, model_idle_timeout=1) as on:
        answers = dict(zip(faults, await ask_each(on, list(faults)), strict=True))

    assert [(answer.end, answer.text) for answer in answers.values()] == [("done", LONG_ANSWER)] * len(faults)
    assert {name: answer.kinds for name, answer in answers.items()} == {
        **{name: ["user", "note", "assistant"] for name in early},
        **{name: ["user", "assistant", "note", "assistant"] for name in broken},
    }
    for name in broken:
        partial = answers[name].entries[1].message
        assert isinstance(partial, AssistantMessage)
        assert partial.stop == "aborted"
        assert LONG_ANSWER.startswith(partial.text)
    assert len(llmock.requests) == 2 * len(faults)
    llmock.assert_resilient(strict=True)


async def test_provider_that_stays_down_gets_one_request_and_three_retries(
    server: EmbeddedServer, tmp_path: Path, llmock: LLMock
) -> None:
    llmock.fail(500, times=4, retry_after=1.0, message="Down.").reply("Back again.")
    model = OpenAIModel("m", base_url=llmock.base_url(), api_key=API_KEY)
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        failed = await ask(conversation)
        requests = len(llmock.requests)
        answered = await ask(conversation, "and now?")

    assert (failed.end, failed.detail) == ("unanswered model_error", "HTTP 500: Down.")
    assert requests == 1 + 3
    assert (answered.end, answered.text) == ("done", "Back again.")
    llmock.assert_resilient(strict=True)


async def test_wait_a_provider_asks_for_is_a_durable_timer_that_outlives_the_worker(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    now, then = "Mon, 01 Jan 2035 00:00:00 GMT", "Mon, 01 Jan 2035 00:00:02 GMT"
    wishes = [
        failing(429, "busy", Retry_After="2"),
        failing(429, "busy", Retry_After=then, Date=now),
        failing(503, "busy", retry_after_ms="1500"),
        CHAT_ANSWER,
    ]
    garbage = [failing(429, "busy", Retry_After="soon"), CHAT_ANSWER]
    async with ScriptedProvider(*wishes) as wishing, ScriptedProvider(*garbage) as babbling:
        async with idle_stage(server, app_of(speaking_to(wishing, babbling)), tmp_path, shutdown_grace=0) as on:
            first, second = on.harness.conversation(), on.harness.conversation()
            async with on.worker():
                submissions = [await first.submit("0"), await second.submit("1")]
                for conversation in (first, second):
                    await eventually(lambda of=conversation: waits_of(on.client, of.id))  # type: ignore[misc]
            async with on.worker():
                answers = [await answer_to(first, submissions[0]), await answer_to(second, submissions[1])]
            waits = [await waits_of(on.client, conversation.id) for conversation in (first, second)]
            gaps = await gaps_between_requests(on, first.id)
        requests = [len(wishing.requests), len(babbling.requests)]

    assert [(answer.end, answer.text) for answer in answers] == [("done", "fine")] * 2
    assert waits == [[2.0, 2.0, 1.5], [2.0]]
    assert requests == [4, 2]
    assert [gap >= wish for gap, wish in zip(gaps, waits[0], strict=True)] == [True] * 3


async def gaps_between_requests(on: Stage, conversation_id: str) -> list[float]:
    """Seconds from the end of each model request to the beginning of the next."""
    [run] = [
        history
        for history in await histories_of(on.client, conversation_id)
        if history.events[0].workflow_execution_started_event_attributes.workflow_type.name == GENERATION
    ]
    begun = [e.event_time.ToDatetime() for e in run.events if e.HasField("activity_task_scheduled_event_attributes")]
    ended = [e.event_time.ToDatetime() for e in run.events if e.HasField("activity_task_completed_event_attributes")]
    return [(later - earlier) / timedelta(seconds=1) for earlier, later in zip(ended, begun[1:], strict=False)]


async def test_silent_stream_is_given_up_and_a_slow_one_is_not(server: EmbeddedServer, tmp_path: Path) -> None:
    words = [sse(chat_chunk(content=word)) for word in ("Four ", "tickets ", "are open.")]
    end = sse(chat_chunk("stop"), "[DONE]")
    whole = raw.Reply((*words, end))
    slow = raw.Reply(tuple(part for byte in b"".join([*words[:1], end]) for part in (bytes([byte]),)))
    trickle = raw.Reply((*[step for word in words for step in (Pause(0.8), word)], Pause(0.8), end))
    async with (
        ScriptedProvider(raw.Reply(tuple(words[:2]), end="held"), whole) as stalling,
        ScriptedProvider(trickle) as trickling,
        ScriptedProvider(slow) as dribbling,
        stage(server, app_of(speaking_to(stalling, trickling, dribbling)), tmp_path, model_idle_timeout=1) as on,
    ):
        answers = await ask_each(on, ["0", "1", "2"])
        bodies = [[request.body for request in provider.requests] for provider in (stalling, trickling, dribbling)]

    assert [(answer.end, answer.text) for answer in answers] == [
        ("done", "Four tickets are open."),
        ("done", "Four tickets are open."),
        ("done", "Four "),
    ]
    assert [answer.kinds for answer in answers] == [
        ["user", "assistant", "note", "assistant"],
        ["user", "assistant"],
        ["user", "assistant"],
    ]
    assert answers[0].entries[1].message == AssistantMessage(text="Four tickets ", stop="aborted")
    assert "sent nothing for 1 s" in answers[0].notes[0]
    assert [len(sent) for sent in bodies] == [2, 1, 1]
    assert bodies[0][0] == bodies[0][1]


async def test_stop_hangs_up_on_a_silent_stream_and_keeps_what_was_said(server: EmbeddedServer, tmp_path: Path) -> None:
    held = raw.Reply((sse(chat_chunk(content="Four tickets ")),), end="held")
    async with ScriptedProvider(held, CHAT_ANSWER) as provider:
        model = OpenAIModel("m", base_url=provider.base_url, api_key=API_KEY)
        async with stage(server, app_of(model), tmp_path, heartbeat_timeout=4.0) as on:
            conversation = on.harness.conversation()
            submission = await conversation.submit("what is open?")
            await provider.waiting.wait()
            async with asyncio.timeout(PATIENCE):
                await conversation.abort()
                stopped = await answer_to(conversation, submission)
                await provider.hung_up.wait()
            answered = await ask(conversation, "and now?")
        requests = len(provider.requests)

    assert (stopped.end, stopped.kinds) == ("unanswered aborted", ["user", "assistant"])
    assert stopped.entries[1].message == AssistantMessage(text="Four tickets ", stop="aborted")
    assert (answered.end, answered.text, requests) == ("done", "fine", 2)


async def test_key_is_never_in_history_nor_in_the_store(server: EmbeddedServer, tmp_path: Path) -> None:
    echo = {"error": {"message": f"Incorrect API key provided: {API_KEY}. Find it in your account.", "code": "invalid"}}
    busy = {"error": {"message": f"Too many requests with {API_KEY}", "type": "busy"}}
    replies = [failing(429, busy, Retry_After="1"), failing(401, echo), CHAT_ANSWER]
    async with ScriptedProvider(*replies) as provider:
        model = OpenAIModel("m", base_url=provider.base_url, api_key=API_KEY)
        async with stage(server, app_of(model), tmp_path) as on:
            conversation = on.harness.conversation()
            refused = await ask(conversation)
            answered = await ask(conversation)
            histories = await histories_of(on.client, conversation.id)
        sent = [request.headers["authorization"] for request in provider.requests]

    assert sent == [f"Bearer {API_KEY}"] * 3
    assert (refused.end, answered.end, len(histories)) == ("unanswered model_error", "done", 3)
    assert refused.detail == "HTTP 401: Incorrect API key provided: ***. Find it in your account."
    written = [history.to_json().encode() for history in histories]
    written += [event.SerializeToString() for history in histories for event in history.events]
    written += contents_of(tmp_path)
    assert not any(API_KEY.encode() in content for content in written)


def contents_of(folder: Path) -> list[bytes]:
    return [blob.read_bytes() for blob in folder.rglob("*") if blob.is_file()]


class Broken:
    """Raises or returns what no model should."""

    name = "test/broken"

    def __init__(self, does: Callable[[], Any]) -> None:
        self._does = does

    async def respond(self, request: ModelRequest, on_text: Callable[[str], None]) -> ModelResponse:
        on_text("so far")
        response: ModelResponse = self._does()
        return response


def raises(error: BaseException) -> Callable[[], Any]:
    def does() -> Any:
        raise error

    return does


async def test_whatever_a_model_raises_ends_the_run_with_its_words(server: EmbeddedServer, tmp_path: Path) -> None:
    broken = {
        "no such attribute": (raises(AttributeError("no attribute x")), "AttributeError: no attribute x"),
        "silent": (raises(RuntimeError()), "RuntimeError"),
        "surrogate": (raises(ValueError("half a \ud800")), "ValueError: half a \ufffd"),
        "long": (raises(ValueError("x" * 3_000_000)), "ValueError: xxx"),
        "exits": (raises(SystemExit(3)), "SystemExit"),
        "cancels itself": (raises(asyncio.CancelledError()), "CancelledError"),
        "returns nothing": (lambda: None, "AttributeError"),
    }
    models: dict[str, Model] = {name: Broken(does) for name, (does, _) in broken.items()}
    async with stage(server, app_of(Routed(models)), tmp_path) as on:
        answers = dict(zip(broken, await ask_each(on, list(broken)), strict=True))

    assert {name: answer.end for name, answer in answers.items()} == dict.fromkeys(broken, "unanswered model_error")
    for name, (_, words) in broken.items():
        assert words in answers[name].detail, name
    partial = AssistantMessage(text="so far", stop="aborted")
    for name in broken.keys() - {"exits"}:
        assert [entry.message for entry in answers[name].entries[1:]] == [partial], name


async def test_script_that_runs_out_says_so_to_whoever_waits(server: EmbeddedServer, tmp_path: Path) -> None:
    @tool
    def look() -> str:
        return "seen"

    async with stage(server, app_of(ScriptedModel([call("look")]), look), tmp_path) as on:
        answer = await ask(on.harness.conversation(), "what is it?")

    assert answer.end == "unanswered model_error"
    assert answer.detail.startswith("the script of scripted/1 has 1 answers, and answer 2 was asked for after:\n")
    assert answer.detail.endswith("tool: seen")
