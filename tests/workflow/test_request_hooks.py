"""Hooks around a request: what they may change, in which order, and that none of them can harm it (spec §13.6)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from activities.hooks import gates
from tarry.app import App, Extension
from tarry.core.agent import Agent
from tarry.core.messages import Message, ToolMessage, UserMessage
from tarry.embedded import EmbeddedServer
from tarry.hooks import Hooks, RequestTold, ResponseTold
from tarry.models import ModelRequest
from tarry.testing import ScriptedModel, Step, fail, say
from tests.support.answers import ask
from tests.support.stage import stage


class Heard:
    """The requests that reached a model which plays these steps for each input."""

    def __init__(self, *steps: Step) -> None:
        self.requests: list[ModelRequest] = []
        script = steps or (say("fine"),)
        self.model = ScriptedModel.for_each_input(script, on_request=self.requests.append)

    def app(self, **hooks: Hooks) -> App:
        """An application with these hooks, in this order."""
        return App(model=self.model, extensions=[Extension(name, hooks=hook) for name, hook in hooks.items()])

    @property
    def texts(self) -> list[list[str]]:
        return [[message.text for message in one.messages] for one in self.requests]


def saying(text: str) -> Hooks:
    """Adds a message to every request."""

    def hook(told: RequestTold) -> Sequence[Message]:
        return [*told.messages, UserMessage(text=f"{text}, after {len(told.messages)}")]

    return Hooks(before_request=hook)


def returning(value: Any) -> Hooks:
    return Hooks(before_request=lambda told: value)


def raising(told: object) -> None:
    raise ValueError("no")


async def test_before_request_is_a_chain_for_this_request_alone(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    app = heard.app(a=saying("one"), b=returning(None), c=saying("two"))
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "first")
        answer = await ask(conversation, "second")

    assert heard.texts == [
        ["first", "one, after 1", "two, after 2"],
        ["first", "fine", "second", "one, after 3", "two, after 4"],
    ]
    assert answer.kinds == ["user", "assistant"] * 2


async def test_before_request_is_asked_at_every_attempt(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard(fail("retryable", "busy", retry_after=1.0), say("fine"))
    async with stage(server, heard.app(a=saying("one")), tmp_path) as on:
        await ask(on.harness.conversation(), "first")

    assert heard.texts == [["first", "one, after 1"]] * 2


BAD: dict[str, tuple[Any, str]] = {
    "no list": (7, "what it returned is no list of messages"),
    "no messages": (["text"], "what it returned is no list of messages"),
    "nothing": ([], "no provider takes what it returned: there are no messages"),
    "a result without a call": (
        [UserMessage(text="hi"), ToolMessage(call_id="x", name="look", text="seen")],
        "no provider takes what it returned: message 1: a result of 'x'",
    ),
}


@pytest.mark.parametrize("case", BAD)
async def test_before_request_that_returns_what_no_provider_takes_is_noted_and_changes_nothing(
    server: EmbeddedServer, tmp_path: Path, case: str
) -> None:
    value, why = BAD[case]
    heard = Heard()
    async with stage(server, heard.app(a=returning(value), b=saying("two")), tmp_path) as on:
        answer = await ask(on.harness.conversation(), "first")

    assert heard.texts == [["first", "two, after 1"]]
    assert answer.kinds == ["user", "note", "assistant"]
    assert answer.notes[0].startswith(f"hook before_request of a failed with ValueError: {why}")


async def test_hook_around_a_request_that_raises_is_noted_once_in_a_run_and_the_others_are_asked(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    told: list[ResponseTold] = []
    heard = Heard(fail("retryable", "busy", retry_after=1.0), say("fine"))
    app = heard.app(
        a=Hooks(before_request=raising, after_response=raising), b=Hooks(after_response=told.append), c=saying("two")
    )
    async with stage(server, app, tmp_path) as on:
        answer = await ask(on.harness.conversation(), "first")

    assert answer.text == "fine"
    assert heard.texts == [["first", "two, after 1"]] * 2
    assert [note for note in answer.notes if "hook" in note] == [
        "hook before_request of a failed with ValueError: no",
        "hook after_response of a failed with ValueError: no",
    ]
    assert len(told) == 2


async def test_after_response_hears_of_every_answer_and_every_failure(server: EmbeddedServer, tmp_path: Path) -> None:
    told: list[ResponseTold] = []

    async def hear(response: ResponseTold) -> None:
        told.append(response)

    heard = Heard(fail("retryable", "busy", retry_after=1.0), say("fine"))
    app = heard.app(a=Hooks(after_response=hear), b=Hooks(after_response=told.append))
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation, "first")

    assert [(one.message.text if one.message else None, one.error) for one in told] == [
        *[(None, "busy")] * 2,
        *[("fine", "")] * 2,
    ]
    assert {one.conversation_id for one in told} == {conversation.id}
    assert told[-1].usage is not None
    assert told[-1].usage.output_tokens > 0


async def test_hook_around_a_request_that_never_answers_is_left_alone(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gates, "QUICK_SECONDS", 0.3)
    heard = Heard()
    app = heard.app(a=Hooks(before_request=lambda told: time.sleep(3), after_response=lambda told: time.sleep(3)))
    async with stage(server, app, tmp_path) as on:
        answer = await ask(on.harness.conversation(), "first")

    assert answer.text == "fine"
    assert [note for note in answer.notes if "TimeoutError: it gave no answer in time" in note] == answer.notes
    assert len(answer.notes) == 2


async def test_hooks_around_a_request_cost_no_event(server: EmbeddedServer, tmp_path: Path) -> None:
    counts: list[int] = []
    for app in (
        Heard().app(),
        Heard().app(a=Hooks(before_request=lambda told: None, after_response=lambda told: None)),
    ):
        async with stage(server, app, tmp_path) as on:
            conversation = on.harness.conversation()
            await ask(conversation, "first")
            counts.append(sum(map(len, (await on.histories(conversation.id)).values())))

    assert counts[0] == counts[1]


async def test_hooks_around_a_request_of_other_extensions_than_the_selected_are_not_asked(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard()
    async with stage(server, heard.app(a=saying("one"), b=saying("two")), tmp_path) as on:
        await ask(on.harness.conversation(agent=Agent(extensions=("b",))), "first")

    assert heard.texts == [["first", "two, after 1"]]
