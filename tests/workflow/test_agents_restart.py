"""A conversation goes on with its own choices whatever became of the application meanwhile (spec §7.6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel
from temporalio.client import WorkflowHistory

from tarry import Agent, App, Edits, Extension, Received, Signal, Sleep, ToolApi
from tarry.core.messages import SystemMessage
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.models.openai import OpenAIModel
from tarry.testing import ScriptedModel, Step, call, say
from tarry.tools import tool
from tests.support.answers import answer_to
from tests.support.scripted_provider import CHAT_ANSWER, ScriptedProvider
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually

SECRET = "sk-tarry-this-is-found-nowhere-4711"


class Go(BaseModel):
    """Nothing."""


GO = Signal("test.go", 1, Go)


@tool(replay="safe")
async def wait(what: str, api: ToolApi) -> str | Sleep:
    """Wait for a word."""
    match await api.read_signal(GO, "go"):
        case Received():
            return f"waited for {what}"
    return Sleep(signals=[GO.key("go")])


@tool
def look(what: str) -> str:
    """Look."""
    return what


@tool
def touch(what: str) -> str:
    """Touch."""
    return what


Seen = list[tuple[str, str, str, list[str]]]


def app_of(seen: Seen, **defaults: Any) -> App:
    """Two models that wait for a word first. `defaults` are what the application has by default."""

    def hear(name: str) -> Any:
        def heard(request: ModelRequest) -> None:
            told = [message.text for message in request.messages if isinstance(message, SystemMessage)]
            words = [word for word in ("brief", "kind", "loud") if word in [request.instructions, *told][-1]]
            seen.append((name, request.thinking, "".join(words), sorted(spec.name for spec in request.tools)))

        return heard

    steps: list[Step] = [call("wait", what="a"), say("done")]
    models = {name: ScriptedModel.for_each_input(steps, f"test/{name}", on_request=hear(name)) for name in ("a", "b")}
    return App(
        models=models,
        extensions=[Extension("waits", [wait], [GO]), Extension("eyes", [look]), Extension("hands", [touch])],
        defaults=Agent(**defaults),
    )


async def parked(on: Stage, conversation_id: str) -> str:
    async def find() -> str:
        items = [item async for item in on.harness.work(conversation_id=conversation_id)]
        return next((item.id for item in items if item.state == "sleeping"), "")

    return await eventually(find)


async def test_parked_conversations_go_on_with_their_own_choices_after_a_restart_with_other_defaults(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    before: Seen = []
    after: Seen = []
    own = Agent(model="b", thinking="high", instructions="Be kind.", extensions=Edits(remove=("eyes",)), cwd="/x")
    first = app_of(before, model="a", instructions="Be brief.", thinking="low")
    second = app_of(after, model="a", instructions="Be loud.", thinking="max", tools=("wait", "look", "touch"))
    async with idle_stage(server, first, tmp_path) as on:
        chosen, plain = on.harness.conversation("c51-own", agent=own), on.harness.conversation("c51-plain")
        async with on.worker():
            submissions = [await one.submit("go") for one in (chosen, plain)]
            calls = [await parked(on, one.id) for one in (chosen, plain)]
        async with on.worker(second):
            for task_id in calls:
                await on.harness.signal(task_id, GO, "go", Go())
            answers = [await answer_to(one, sent) for one, sent in zip((chosen, plain), submissions, strict=True)]
            kept = await chosen.agent()

    assert [answer.end for answer in answers] == ["done", "done"]
    assert sorted(before) == [
        ("a", "low", "brief", ["look", "touch", "wait"]),
        ("b", "high", "kind", ["touch", "wait"]),
    ]
    # The one that chose keeps its choices; the one that did not goes by the application of the day.
    assert sorted(after) == [
        ("a", "max", "loud", ["look", "touch", "wait"]),
        ("b", "high", "kind", ["touch", "wait"]),
    ]
    assert kept == own


async def test_a_reload_interrupts_nothing_and_a_tool_that_it_took_away_is_told_as_unavailable(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    seen: Seen = []
    first = app_of(seen, model="a")
    extensions = [Extension("eyes", [look]), Extension("waits", signals=[GO])]
    without = App(models=first.models, extensions=extensions, defaults=Agent(model="a"))
    async with idle_stage(server, first, tmp_path) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            submission = await conversation.submit("go")
            task_id = await parked(on, conversation.id)
        async with on.worker(without):
            await on.harness.signal(task_id, GO, "go", Go())
            answer = await answer_to(conversation, submission)

    assert (answer.codes, answer.end) == (["tool_unavailable"], "done")
    assert [tools for *_, tools in seen] == [["look", "touch", "wait"], ["look"]]


async def test_the_key_of_a_model_is_in_no_history_and_in_no_store(server: EmbeddedServer, tmp_path: Path) -> None:
    store = tmp_path / "store"
    async with ScriptedProvider(CHAT_ANSWER) as provider:
        model = OpenAIModel("m", base_url=provider.base_url, api_key=SECRET)
        app = App(models={"keyed": model}, extensions=[Extension("eyes", [look])])
        async with idle_stage(server, app, store) as on, on.worker():
            conversation = on.harness.conversation("secretive", agent=Agent(model="keyed"))
            await conversation.configure(thinking="low")
            answer = await answer_to(conversation, await conversation.submit("go"))
            histories = await _histories(on)
        await model.aclose()

    assert answer.end == "done"
    assert any(SECRET in value for value in provider.requests[0].headers.values())  # the key was used
    assert len(histories) == 2
    assert not [one for one in histories if SECRET in one.to_json()]
    assert not [file for file in store.rglob("*") if file.is_file() and SECRET.encode() in file.read_bytes()]


async def _histories(on: Stage) -> list[WorkflowHistory]:
    found = [one async for one in on.client.list_workflows('TarryConversation = "secretive"')]
    return [await on.client.get_workflow_handle(one.id, run_id=one.run_id).fetch_history() for one in found]
