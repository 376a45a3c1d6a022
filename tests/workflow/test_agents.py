"""What a conversation chooses: model, thinking, extensions, tools, instructions and folder (spec §7.6)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from tarry import Agent, App, Edits, Extension, ToolApi
from tarry.core.messages import SystemMessage
from tarry.core.protocol import SUBMIT, RunSettings, SubmitInput
from tarry.core.transcript import PAGE_BYTES
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.store import BlobStore
from tarry.testing import ScriptedModel, Step, call, say
from tarry.tools import tool
from tests.support.answers import answer_to, ask
from tests.support.held import HeldMethod, HeldTool
from tests.support.stage import idle_stage, kinds, stage
from tests.support.waiting import eventually


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


@tool
def touch(what: str) -> str:
    """Touch something."""
    return f"touched {what}"


class Heard:
    """What each model of an application was asked with."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, ModelRequest]] = []

    def app(self, *, defaults: Agent | None = None, work: HeldTool | None = None) -> App:
        """Two models and two extensions; with `work`, the models call it first."""
        steps: list[Step] = [call("work", what="a"), say("done")] if work else [say("done")]
        extra = [Extension("work", [work.tool])] if work else []
        return App(
            model=ScriptedModel.for_each_input(steps, "scripted/slow", on_request=self.hear("slow")),
            models={"fast": ScriptedModel.for_each_input(steps, "scripted/fast", on_request=self.hear("fast"))},
            instructions="Be brief.",
            extensions=[Extension("eyes", [look]), Extension("hands", [touch]), *extra],
            defaults=defaults or Agent(),
        )

    def hear(self, name: str) -> Callable[[ModelRequest], None]:
        """What is to be told of each request to the model of that name."""
        return lambda request: self.requests.append((name, request))

    @property
    def seen(self) -> list[tuple[str, str, str, list[str]]]:
        """Model, thinking, instructions and tools of each request."""
        return [
            (name, request.thinking, _instructions(request), [spec.name for spec in request.tools])
            for name, request in self.requests
        ]


def _instructions(request: ModelRequest) -> str:
    """As they were told last: changes come as messages (spec §13)."""
    told = [message.text for message in request.messages if isinstance(message, SystemMessage)]
    return next((kind for kind in ("Be brief.", "Be kind.") if kind in [request.instructions, *told][-1]), "")


async def test_each_request_goes_by_the_choices_of_its_conversation(server: EmbeddedServer, tmp_path: Path) -> None:
    heard = Heard()
    async with stage(server, heard.app(), tmp_path) as on:
        plain = on.harness.conversation()
        chosen = on.harness.conversation(
            agent=Agent(model="fast", thinking="high", tools=Edits(remove=("look",)), instructions="Be kind.")
        )
        await ask(plain)
        answer = await ask(chosen)
        await chosen.configure(model=None, instructions=None)
        await ask(chosen)

    assert heard.seen == [
        ("slow", "off", "Be brief.", ["look", "touch"]),
        ("fast", "high", "Be kind.", ["touch"]),
        ("slow", "high", "Be brief.", ["touch"]),
    ]
    assert [entry.model for entry in answer.entries if entry.kind == "assistant"] == ["scripted/fast"]


async def test_configuring_an_idle_conversation_makes_no_run_and_no_entry(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, Heard().app(), tmp_path) as on:
        conversation = on.harness.conversation("quiet")
        first = await conversation.configure(model="fast", cwd="/work")
        second = await conversation.configure(cwd=None, thinking="low")
        view = await conversation.view()

        assert first == Agent(model="fast", cwd="/work")
        assert second == await conversation.agent() == Agent(model="fast", thinking="low")
        assert (view.runs, view.open_generation, kinds(await conversation.transcript())) == (0, None, [])


async def test_choices_that_come_in_the_middle_of_a_run_count_from_its_next_request(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard, work = Heard(), HeldTool()
    async with stage(server, heard.app(work=work), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await work.begun()
        await conversation.configure(model="fast", thinking="max", extensions=["hands"])
        work.go.set()
        answer = await answer_to(conversation, submission)

    assert answer.texts == ["did a"]  # the call was made under the choices of its request
    assert [one[:2] + one[3:] for one in heard.seen] == [
        ("slow", "off", ["look", "touch", "work"]),
        ("fast", "max", ["touch"]),
    ]


async def test_choices_that_come_with_a_steer_count_from_the_request_that_reads_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard, work = Heard(), HeldTool()
    async with stage(server, heard.app(work=work), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await work.begun()
        chosen = RunSettings(agent=Agent(model="fast", thinking="max"))
        steer = SubmitInput(content="faster", request_id="s", when_busy="steer", settings=chosen)
        await on.client.get_workflow_handle(conversation.id).execute_update(SUBMIT, steer)
        work.go.set()
        await submission.wait()
        chosen_now = await conversation.agent()

    assert [one[:2] for one in heard.seen] == [("slow", "off"), ("fast", "max"), ("fast", "max")]
    assert chosen_now == Agent(model="fast", thinking="max")


async def test_a_worker_that_was_away_finds_the_choices_and_then_the_input(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    heard = Heard()
    async with idle_stage(server, heard.app(), tmp_path) as on:
        conversation = on.harness.conversation()
        assert await conversation.configure(model="fast") is None
        submission = await conversation.submit("go")
        async with on.worker():
            await submission.wait()

    assert [one[0] for one in heard.seen] == ["fast"]


@pytest.mark.parametrize(
    ("agent", "detail"),
    [
        (Agent(model="gone"), "there is no model 'gone' here; known are: scripted/slow, fast."),
        (Agent(model="scripted/fast"), "there is no model 'scripted/fast' here; known are: scripted/slow, fast."),
    ],
)
async def test_an_unknown_model_leaves_the_input_unanswered_and_says_what_there_is(
    server: EmbeddedServer, tmp_path: Path, agent: Agent, detail: str
) -> None:
    async with stage(server, Heard().app(), tmp_path) as on:
        conversation = on.harness.conversation(agent=agent)
        failed = await ask(conversation)
        await conversation.configure(model="fast")
        answered = await ask(conversation)

    assert failed.end == "unanswered no_model"
    assert failed.detail.startswith(detail)
    assert answered.end == "done"


async def test_an_application_without_a_default_model_answers_only_who_has_chosen_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app = App(models={"only": ScriptedModel.for_each_input([say("hello")])})
    async with stage(server, app, tmp_path) as on:
        failed = await ask(on.harness.conversation())
        answered = await ask(on.harness.conversation(agent=Agent(model="only")))

    assert (failed.end, answered.text) == ("unanswered no_model", "hello")
    assert failed.detail.startswith("no model is chosen; known are: only.")


async def test_what_comes_from_a_shell_is_taken_or_refused_with_a_reason(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, Heard().app(), tmp_path) as on:
        conversation = on.harness.conversation("shelled")
        await conversation.configure(cwd="/x")
        handle = on.client.get_workflow_handle("shelled")
        await handle.signal("tarry.configure", {"model": "fast", "cwd": None})
        await handle.signal("tarry.configure", {"modle": "fast"})
        await handle.signal("tarry.configure", args=[])

        async def refusals() -> list[str]:
            return [refusal.reason for refusal in (await conversation.view()).refusals]

        found = await eventually(refusals, lambda reasons: len(reasons) == 2)
        assert await conversation.agent() == Agent(model="fast")
        assert "modle" in found[0]
        assert found[1] == "tarry.configure: one JSON object expected, 0 inputs came"


async def test_what_is_no_choice_is_refused_before_it_is_sent(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, Heard().app(), tmp_path) as on:
        with pytest.raises(ValueError, match=r"instructions: .*32768 are allowed"):
            await on.harness.conversation().configure(instructions="x" * 40_000)


async def test_a_tool_is_told_what_its_conversation_goes_by_and_may_choose_anew(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    told: list[Agent] = []

    @tool(replay="safe")
    async def think(api: ToolApi) -> str:
        """Think harder from now on."""
        told.append(api.agent)
        await api.configure(api.conversation_id, thinking="high")
        return "done"

    heard = Heard()
    model = ScriptedModel.for_each_input([call("think"), say("done")], on_request=heard.hear("one"))
    app = App(model=model, extensions=[Extension("mind", [think])], defaults=Agent(cwd="/default"))
    async with stage(server, app, tmp_path) as on:
        await ask(on.harness.conversation(agent=Agent(instructions="Be kind.", thinking="low")))

    assert told == [Agent(model="scripted/1", thinking="low", extensions=("mind",), tools=("think",), cwd="/default")]
    assert [request.thinking for _, request in heard.requests] == ["low", "high"]


async def test_choices_that_come_between_two_runs_survive_the_turn_of_the_workflow(
    lowered_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    async with stage(lowered_server, heard.app(), tmp_path, turnover_events=10) as on:
        sealing = HeldMethod(monkeypatch, BlobStore, "put")
        conversation = on.harness.conversation()
        await conversation.submit("long " * (PAGE_BYTES // 4))
        await sealing.reached.wait()
        opened = await conversation.submit("opened, and not yet started")
        configuring = asyncio.create_task(conversation.configure(model="fast"))
        await eventually(conversation.agent, lambda agent: agent.model == "fast")
        sealing.go.set()

        chosen = await configuring
        assert chosen is not None
        assert chosen.model == "fast"
        assert (await opened.wait()).answer_text == "done"
    assert [name for name, *_ in heard.seen] == ["slow", "fast"]
