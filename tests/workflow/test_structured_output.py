"""Final answers as data: asked for, enforced, sent back once, and read by who asked (spec §7.10)."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import pytest
from pydantic import BaseModel, ConfigDict, field_validator

from tarry.app import App, Extension
from tarry.client import Submission, UnreadableOutput
from tarry.core.messages import SystemMessage
from tarry.embedded import EmbeddedServer
from tarry.hooks import Continue, Hooks, Turn
from tarry.models import ModelInfo, ModelRequest
from tarry.testing import ScriptedModel, Step, call, calls, say
from tarry.tools import tool
from tests.support.held import HeldModel
from tests.support.stage import Stage, kinds, stage

WRONG = '{"city": "Oslo", "degrees": "cold"}'
RIGHT = '{"city": "Oslo", "degrees": -3}'
PROBLEM = "At $.degrees: 'cold' is not of type 'integer'."


class Weather(BaseModel):
    """How it is somewhere."""

    model_config = ConfigDict(extra="forbid")

    city: str
    degrees: int


OSLO = Weather(city="Oslo", degrees=-3)


@tool
def measure(city: str) -> int:
    """The degrees of a city."""
    return -3


class Scripted:
    """A model for each input, and the requests that reached it."""

    def __init__(self, *steps: Step, structured: bool | None = None) -> None:
        self.requests: list[ModelRequest] = []
        info = ModelInfo(structured=structured)
        self.model = ScriptedModel.for_each_input(steps, on_request=self.requests.append, info=info)

    def app(self, hooks: Hooks | None = None) -> App:
        return App(model=self.model, extensions=[Extension("test", [measure], hooks=hooks)])

    def told(self, index: int) -> list[str]:
        """What a request says of the prompt in the middle of the conversation."""
        return [one.text for one in self.requests[index].messages if isinstance(one, SystemMessage)]


async def test_answer_comes_back_as_the_model_that_was_asked_for(server: EmbeddedServer, tmp_path: Path) -> None:
    scripted = Scripted(say(RIGHT))
    async with stage(server, scripted.app(), tmp_path) as on:
        submission = await on.harness.conversation().submit("How is Oslo?", output=Weather)
        assert_type(submission, Submission[Weather])
        settled = await submission.wait()

    assert_type(settled.output, Weather | None)
    assert (settled.status, settled.answer_text, settled.output) == ("done", RIGHT, OSLO)


async def test_later_handle_reads_the_answer_as_it_is_told_to(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, Scripted(say(RIGHT)).app(), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("How is Oslo?", request_id="r", output=Weather)
        await first.wait()

        again = await conversation.submission("r", Weather).wait()
        plain = await conversation.submission("r").wait()

    assert (again.output, plain.output, plain.answer_text) == (OSLO, None, RIGHT)


async def test_model_whose_provider_enforces_the_form_is_given_the_schema(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    scripted = Scripted(say(RIGHT), structured=True)
    async with stage(server, scripted.app(), tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("How is Oslo?", output=Weather)).wait()
        await (await conversation.submit("And now?")).wait()

    first, second = scripted.requests
    assert first.output is not None
    assert (first.output.name, first.output.json_schema) == ("Weather", Weather.model_json_schema())
    assert (second.output, first.instructions, scripted.told(1)) == (None, "", [])


async def test_model_whose_provider_enforces_none_is_told_for_this_run_alone(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    scripted = Scripted(say(RIGHT))
    async with stage(server, scripted.app(), tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("Hello.")).wait()
        await (await conversation.submit("How is Oslo?", output=Weather)).wait()
        await (await conversation.submit("Thanks.")).wait()

    assert [request.output for request in scripted.requests] == [None] * 3
    assert scripted.told(0) == []
    [told] = scripted.told(1)
    assert "Your final answer is one JSON value" in told
    assert scripted.told(2) == [told, "No longer part of your instructions: answer-format."]


async def test_answer_of_another_form_is_sent_back_once_with_the_problem(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    scripted = Scripted(say(WRONG), say(RIGHT))
    model = ScriptedModel([say(WRONG), say(RIGHT)], on_request=scripted.requests.append)
    async with stage(server, App(model=model), tmp_path) as on:
        conversation = on.harness.conversation()
        settled = await (await conversation.submit("How is Oslo?", output=Weather)).wait()
        entries = await conversation.transcript()

    assert settled.output == OSLO
    assert kinds(entries) == ["user", "assistant", "user", "assistant"]
    correction = scripted.requests[1].messages[-1].text
    assert PROBLEM in correction
    assert correction.endswith("Answer again, with the corrected JSON value alone.")


async def test_second_answer_of_another_form_ends_the_run_with_the_problem(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    model = ScriptedModel([say("It is cold."), say(WRONG), say("Fine.")])
    async with stage(server, App(model=model), tmp_path) as on:
        conversation = on.harness.conversation()
        settled = await (await conversation.submit("How is Oslo?", output=Weather)).wait()
        later = await (await conversation.submit("Never mind.")).wait()

    assert (settled.status, settled.reason, settled.detail) == ("unanswered", "invalid_output", PROBLEM)
    assert (settled.output, settled.answer) == (None, None)
    assert later.answer_text == "Fine."


async def test_calls_of_tools_on_the_way_are_free_in_form(server: EmbeddedServer, tmp_path: Path) -> None:
    model = ScriptedModel([calls(call("measure", city="Oslo"), text="I look."), say(RIGHT)])
    app = App(model=model, extensions=[Extension("test", [measure])])
    async with stage(server, app, tmp_path) as on:
        settled = await (await on.harness.conversation().submit("How is Oslo?", output=Weather)).wait()

    assert settled.output == OSLO


async def test_hooks_before_an_answer_stands_see_only_what_has_the_form(server: EmbeddedServer, tmp_path: Path) -> None:
    seen: list[str] = []

    def once(turn: Turn) -> Continue | None:
        seen.append(turn.text)
        return Continue("Look again.") if len(seen) == 1 else None

    model = ScriptedModel([say(WRONG), say(RIGHT), say("Still cold."), say(RIGHT)])
    app = App(model=model, extensions=[Extension("test", hooks=Hooks(on_yield=once))])
    async with stage(server, app, tmp_path) as on:
        settled = await (await on.harness.conversation().submit("How is Oslo?", output=Weather)).wait()

    assert (seen, settled.output) == ([RIGHT, RIGHT], OSLO)


async def test_answer_that_the_models_own_code_refuses_is_told(server: EmbeddedServer, tmp_path: Path) -> None:
    class Warm(Weather):
        @field_validator("degrees")
        @classmethod
        def check(cls, degrees: int) -> int:
            if degrees < 0:
                raise ValueError("it is not warm")
            return degrees

    async with stage(server, Scripted(say(RIGHT)).app(), tmp_path) as on:
        submission = await on.harness.conversation().submit("How is Oslo?", output=Warm)
        with pytest.raises(UnreadableOutput, match="the answer is no Warm: degrees: Value error, it is not warm"):
            await submission.wait()
        assert (await submission.status()).answer_text == RIGHT


async def test_steer_cannot_ask_for_a_form(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, Scripted(say(RIGHT)).app(), tmp_path) as on:
        with pytest.raises(ValueError, match="needs a run of its own"):
            await on.harness.conversation().submit("How is Oslo?", when_busy="steer", output=Weather)


async def test_input_that_waits_keeps_its_form(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldModel(ScriptedModel([say("Hi."), say(RIGHT)]))
    async with stage(server, App(model=held), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("Hello.")
        await held.asked.wait()
        second = await conversation.submit("How is Oslo?", output=Weather)
        held.go.set()

        assert (await first.wait()).answer_text == "Hi."
        assert (await second.wait()).output == OSLO


async def test_schema_is_in_history_as_data_and_not_with_calls(server: EmbeddedServer, tmp_path: Path) -> None:
    model = ScriptedModel([call("measure", city="Oslo"), say(RIGHT)])
    app = App(model=model, extensions=[Extension("test", [measure])])
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("How is Oslo?", output=Weather)).wait()
        found = {name: await _mentions(on, name) for name in await on.histories(conversation.id)}

    assert {name for name, number in found.items() if number and "/t" in name} == set()
    assert sum(found.values()) > 0


async def _mentions(on: Stage, workflow_id: str) -> int:
    """How many events of a history hold the schema."""
    history = await on.client.get_workflow_handle(workflow_id).fetch_history()
    return sum(b"How it is somewhere." in event.SerializeToString() for event in history.events)
