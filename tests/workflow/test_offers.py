"""Offers of extensions: which tools a request shows, how, and what else it says (spec §13.7)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from activities.run import offering
from tarry.app import App, Extension
from tarry.core.messages import ToolSpec
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.offers import Offer, OfferAsked, Offered, ToolOffer
from tarry.sections import Section
from tarry.testing import ScriptedModel, Step, call, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.stage import idle_stage, stage
from tests.workflow.test_prompt import systems

ENUM = {"type": "object", "properties": {"place": {"enum": ["Oslo", "Rome"]}}, "required": ["place"]}


@tool
def look(place: str) -> str:
    """Look at a place."""
    return f"saw {place}"


@tool
def wait() -> str:
    """Wait."""
    return "waited"


class Heard:
    """The requests that reached a model, of an application with one extension that offers."""

    def __init__(self, *steps: Step) -> None:
        self.requests: list[ModelRequest] = []
        self.model = ScriptedModel.for_each_input([*steps, say("fine")], on_request=self.requests.append)

    def app(self, offer: Offer | None) -> App:
        """`look` is of the extension that offers, `wait` of another one."""
        offering = Extension("places", [look], offer=offer, sections=[Section("map", "North is up.")])
        return App(model=self.model, extensions=[offering, Extension("other", [wait])])

    @property
    def tools(self) -> list[list[ToolSpec]]:
        """Of each request its tools."""
        return [list(request.tools) for request in self.requests]

    @property
    def names(self) -> list[list[str]]:
        """Of each request the names of its tools."""
        return [[spec.name for spec in request.tools] for request in self.requests]


async def test_tool_is_shown_as_it_is_offered_and_sections_follow_those_for_good(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard(call("look", place="Oslo"))

    async def offer(asked: OfferAsked) -> Offered:
        return Offered({"look": ToolOffer("Look at a city.", ENUM)}, [Section("cities", "There are two.")])

    async with stage(server, heard.app(offer), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    shown = ToolSpec(name="look", description="Look at a city.", parameters=ENUM)
    assert [tools[0] for tools in heard.tools] == [shown, shown]
    assert heard.names == [["look", "wait"]] * 2
    assert {one.instructions for one in heard.requests} == {
        "<map>\nNorth is up.\n</map>\n\n<cities>\nThere are two.\n</cities>"
    }
    assert answer.texts == ["saw Oslo"]


async def test_call_of_a_tool_that_is_not_offered_is_answered_as_of_one_that_is_not_there(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard(call("look", place="Oslo"))
    async with stage(server, heard.app(lambda asked: Offered({"look": None})), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert heard.names == [["wait"]] * 2
    assert answer.codes == ["tool_unavailable"]


async def test_change_of_an_offer_is_told_where_it_came_and_no_offer_changes_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard()
    answers: Iterator[Offered | None] = iter([Offered({"look": None}), None, None])
    async with stage(server, heard.app(lambda asked: next(answers)), tmp_path) as on:
        conversation = on.harness.conversation()
        for _ in range(3):
            await ask(conversation)

    assert heard.names == [["wait"], ["look", "wait"], ["look", "wait"]]
    assert [systems(one.messages) for one in heard.requests] == [[], ["New tools: look."], ["New tools: look."]]


async def test_tools_of_other_extensions_are_not_an_extensions_to_offer(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    async with stage(server, heard.app(lambda asked: Offered({"wait": None, "none": None})), tmp_path) as on:
        await ask(on.harness.conversation())

    assert heard.names == [["look", "wait"]]


async def test_offer_that_fails_keeps_what_was_shown_last_and_is_noted_once_in_a_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard(call("look", place="Rome"))
    answers = iter([Offered({"look": ToolOffer(parameters=ENUM)}, [Section("cities", "There are two.")])] * 2)
    async with stage(server, heard.app(lambda asked: next(answers)), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation)
        answer = await ask(conversation)

    assert [tools[0].parameters for tools in heard.tools] == [ENUM] * 4
    assert len({one.instructions for one in heard.requests}) == 1
    assert [systems(one.messages) for one in heard.requests] == [[]] * 4
    [note] = answer.notes
    assert "offer of places failed" in note
    assert "StopIteration" in note


async def test_tool_that_was_not_offered_last_is_not_offered_while_the_offer_fails(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard()
    answers = iter([Offered({"look": None})])
    async with stage(server, heard.app(lambda asked: next(answers)), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation)
        await ask(conversation)

    assert heard.names == [["wait"], ["wait"]]


async def test_process_that_never_saw_what_was_offered_shows_the_declaration_while_the_offer_fails(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard()
    answers = iter([Offered({"look": ToolOffer(parameters=ENUM)})])
    async with idle_stage(server, heard.app(lambda asked: next(answers)), tmp_path) as on:
        conversation = on.harness.conversation()
        for _ in range(2):
            async with on.worker():
                await ask(conversation)

    assert [tools[0].parameters for tools in heard.tools] == [ENUM, look.schema()]


async def test_offer_that_is_late_is_not_waited_for(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offering, "SECONDS", 0.2)
    heard = Heard()

    async def never(asked: OfferAsked) -> Offered:
        await asyncio.sleep(600)
        return Offered()

    async with stage(server, heard.app(never), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert heard.names == [["look", "wait"]]
    [note] = answer.notes
    assert "gave no answer in time" in note


@pytest.mark.parametrize(
    "junk",
    [
        "text",
        Offered({"look": ToolOffer(parameters={"type": "array"})}),
    ],
)
async def test_offer_that_is_none_changes_nothing_and_is_noted(
    server: EmbeddedServer, tmp_path: Path, junk: Any
) -> None:
    heard = Heard()
    async with stage(server, heard.app(lambda asked: junk), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    declared = ToolSpec(name="look", description="Look at a place.", parameters=look.schema())
    assert [tools[0] for tools in heard.tools] == [declared]
    assert len(answer.notes) == 1


async def test_offer_is_told_whose_request_it_is_and_may_ask_the_server(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    told: list[OfferAsked] = []
    states: list[str] = []

    async def offer(asked: OfferAsked) -> None:
        told.append(asked)
        states.append((await asked.harness.conversation(asked.conversation_id).agent()).thinking or "")

    async with stage(server, heard.app(offer), tmp_path) as on:
        conversation = on.harness.conversation("c-offer")
        await conversation.configure(thinking="high")
        answer = await ask(conversation)

    [asked] = told
    conversation_part, number = asked.generation_id.split("/")
    assert (asked.conversation_id, number, asked.tree_id) == ("c-offer", "g1", f"{conversation_part}/agents")
    assert asked.agent.tools == ("look", "wait")
    assert (states, answer.notes) == (["high"], [])
