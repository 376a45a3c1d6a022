"""The scripted model: a function of the request, loud at its end."""

from __future__ import annotations

import asyncio

import pytest

from tarry.core.messages import AssistantMessage, Message, ToolMessage, Usage, UserMessage
from tarry.models import Model, ModelError, ModelRequest, ModelResponse
from tarry.testing import (
    Call,
    InvalidRequest,
    Reply,
    ScriptedModel,
    ScriptExhausted,
    Step,
    call,
    calls,
    empty,
    fail,
    raw_call,
    say,
)


def request(*messages: Message, session: str = "c") -> ModelRequest:
    return ModelRequest(messages=messages, session_id=session)


def user(text: str = "hi") -> UserMessage:
    return UserMessage(text=text)


class Talk:
    """A conversation without a harness: it feeds each response back, and answers each call."""

    def __init__(self, model: Model, session: str = "c") -> None:
        self.model = model
        self.session = session
        self.messages: list[Message] = []
        self.streamed: list[str] = []

    async def say(self, text: str = "hi") -> AssistantMessage:
        self.messages.append(user(text))
        return await self.go_on()

    async def go_on(self) -> AssistantMessage:
        message = (await self.respond()).message
        if not message.is_empty:
            self.messages.append(message)
            self.messages.extend(ToolMessage(call_id=c.call_id, name=c.name, text="done") for c in message.calls)
        return message

    async def respond(self) -> ModelResponse:
        return await self.model.respond(request(*self.messages, session=self.session), self.streamed.append)


async def test_the_answer_is_chosen_by_the_responses_in_the_request_alone() -> None:
    script: list[Step] = [say("one"), call("look", path="ü"), say("three")]
    talk = Talk(ScriptedModel(script))
    first = [await talk.say(), await talk.say("more"), await talk.go_on()]

    # Another process knows nothing of what came before, and is asked for the second answer first.
    other = ScriptedModel(script)
    again = [(await other.respond(request(*talk.messages[:n]), talk.streamed.append)).message for n in (3, 5, 1)]

    assert [message.text for message in first] == ["one", "", "three"]
    assert again == [first[1], first[2], first[0]]
    assert other.name == "scripted/1"


async def test_calls_carry_json_arguments_and_ids_unique_in_the_conversation() -> None:
    talk = Talk(ScriptedModel([calls(call("look", path="ü"), call("stop"), text="two calls"), call("look")]))

    first, second = await talk.say(), await talk.go_on()

    assert (first.text, first.stop, second.stop) == ("two calls", "tool_use", "tool_use")
    assert [(c.call_id, c.name, c.arguments) for c in (*first.calls, *second.calls)] == [
        ("call_0_0", "look", '{"path": "ü"}'),
        ("call_0_1", "stop", "{}"),
        ("call_1_0", "look", "{}"),
    ]


async def test_a_script_can_write_what_bad_models_write() -> None:
    steps: list[Step] = [
        calls(raw_call("write", '{"path": "a', call_id="same"), raw_call("", "null", call_id=""), stop="length"),
        say("half an ans", stop="length"),
        say("", reasoning="hm"),
    ]
    replies = [(await ScriptedModel([step]).respond(request(user()), lambda _: None)).message for step in steps]

    assert [(c.call_id, c.name, c.arguments) for c in replies[0].calls] == [
        ("same", "write", '{"path": "a'),
        ("", "", "null"),
    ]
    assert [reply.stop for reply in replies] == ["length", "length", "stop"]
    assert (replies[2].is_empty, replies[2].reasoning) == (True, "hm")


@pytest.mark.parametrize(
    ("step", "pieces"),
    [
        (say("abcdefg", chunks=3), ["abc", "def", "g"]),
        (say("ab", chunks=9), ["a", "b"]),
        (say("whole"), ["whole"]),
        (calls(call("look"), text="first", chunks=1), ["first"]),
        (say(""), []),
        (call("look"), []),
    ],
)
async def test_text_is_streamed_in_pieces_that_make_the_whole(step: Step, pieces: list[str]) -> None:
    talk = Talk(ScriptedModel([step]))

    message = await talk.say()

    assert talk.streamed == pieces
    assert "".join(pieces) == message.text


async def test_a_delayed_answer_can_be_cut_off_between_its_pieces() -> None:
    talk = Talk(ScriptedModel([say("abc", chunks=3, delay=0.01)]))
    first = asyncio.Event()
    asked = asyncio.create_task(talk.model.respond(request(user()), lambda _: first.set()))

    await first.wait()
    asked.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asked


async def test_a_failing_step_fails_as_often_as_it_says_and_then_the_next_answers() -> None:
    talk = Talk(
        ScriptedModel([fail("retryable", "429", retry_after=7.0, partial="hal", times=2), say("one"), say("two")])
    )
    talk.messages.append(user())

    for _ in range(2):
        with pytest.raises(ModelError, match="429") as caught:
            await talk.respond()
        assert (caught.value.kind, caught.value.retry_after, caught.value.partial) == ("retryable", 7.0, "hal")

    assert talk.streamed == ["hal", "hal"]
    assert [(await talk.go_on()).text, (await talk.say()).text] == ["one", "two"]


async def test_failures_are_counted_for_each_conversation() -> None:
    model = ScriptedModel([fail("permanent"), say("one")])
    one, other = Talk(model, "one"), Talk(model, "other")
    one.messages.append(user())
    other.messages.append(user())

    for talk in (one, other):
        with pytest.raises(ModelError, match="the scripted provider failed"):
            await talk.respond()
    assert [(await talk.go_on()).text for talk in (one, other)] == ["one", "one"]


async def test_a_step_that_always_fails_never_lets_the_next_answer() -> None:
    talk = Talk(ScriptedModel([fail("retryable", times=None), say("never")]))
    talk.messages.append(user())

    for _ in range(5):
        with pytest.raises(ModelError):
            await talk.respond()


async def test_an_empty_answer_repeats_as_often_as_it_says() -> None:
    talk = Talk(ScriptedModel([call("look"), empty(times=2), say("at last"), empty(times=None, reasoning="hm")]))

    heard = [await talk.say(), await talk.go_on(), await talk.go_on(), await talk.go_on()]
    silent = [await talk.say("more"), await talk.go_on(), await talk.go_on()]

    assert [message.text for message in heard] == ["", "", "", "at last"]
    assert [message.is_empty for message in heard] == [False, True, True, False]
    assert all(message.is_empty and message.reasoning == "hm" for message in silent)


async def test_a_callable_step_decides_from_the_request() -> None:
    def echo(asked: ModelRequest) -> Reply | Call:
        last = asked.messages[-1]
        return call("look", at=last.text) if last.text == "look" else say(f"you said {last.text}")

    talk = Talk(ScriptedModel([echo, echo]))

    assert (await talk.say("hi")).text == "you said hi"
    assert (await talk.say("look")).calls[0].arguments == '{"at": "look"}'


async def test_a_script_for_each_input_starts_again_at_every_user_message() -> None:
    model = ScriptedModel.for_each_input([call("look"), fail("retryable"), say("seen")], "scripted/again")
    talk = Talk(model)

    for round_ in range(3):
        first = await talk.say()
        with pytest.raises(ModelError, match="the scripted provider failed"):
            await talk.go_on()
        assert [c.call_id for c in first.calls] == [f"call_{2 * round_}_0"]
        assert (await talk.go_on()).text == "seen"
    with pytest.raises(ScriptExhausted):
        await talk.go_on()
    assert model.name == "scripted/again"


@pytest.mark.parametrize("script", [[say("one")], [say("one"), fail("retryable", times=0)]])
async def test_a_script_that_runs_out_says_what_was_asked_and_after_what(script: list[Step]) -> None:
    talk = Talk(ScriptedModel(script))
    await talk.say("hello")
    talk.messages.append(user("x" * 500))

    with pytest.raises(ScriptExhausted) as caught:
        await talk.respond()

    assert caught.value.kind == "permanent"
    assert caught.value.text == (
        "the script of scripted/1 has 1 answers, and answer 2 was asked for after:\n"
        f"  user: hello\n  assistant: one\n  user: {'x' * 200}…"
    )


async def test_every_request_must_pass_a_strict_provider_and_is_seen_before() -> None:
    seen: list[ModelRequest] = []
    model = ScriptedModel([say("one")], on_request=seen.append)
    bad, good = request(), request(user())

    with pytest.raises(InvalidRequest, match="no messages"):
        await model.respond(bad, lambda _: None)
    await model.respond(good, lambda _: None)

    assert seen == [bad, good]


async def test_usage_counts_four_characters_as_a_token() -> None:
    talk = Talk(ScriptedModel([call("look", n=1), say("12345678")]))
    talk.messages.append(user("1234"))

    first = await talk.respond()
    await talk.go_on()
    second = await talk.respond()

    assert first.usage == Usage(input_tokens=1, output_tokens=3)
    assert second.usage == Usage(input_tokens=5, output_tokens=2)
