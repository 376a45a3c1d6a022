"""Tools and durable tasks that name a worker: their code, and nothing else, runs there (spec §25.1, §25.2)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.app import App, Extension
from tarry.attributes import WORKER
from tarry.cli.explanation import Explanation
from tarry.client import Conversation, WorkItem
from tarry.client.workers import marked
from tarry.core.agent import Agent
from tarry.embedded import EmbeddedServer
from tarry.tasks import DurableTask, Go
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import Tool, tool
from tests.support.answers import answer_to, ask
from tests.support.parking import ANSWER, HOUR, Waits, start, waiting_app
from tests.support.routing import scheduled
from tests.support.stage import Stage, app_of, idle_stage, stage
from tests.support.waiting import eventually


@tool(worker="gpu")
def render(scene: str) -> str:
    """Render a scene."""
    return f"rendered {scene}"


@tool
def look() -> str:
    """Look around."""
    return "seen"


def both() -> App:
    return app_of(ScriptedModel([calls(call("render", scene="sea"), call("look")), say("done")]), render, look)


async def items(on: Stage, conversation: Conversation) -> dict[str, WorkItem]:
    """The calls of a conversation that are not over, by tool, as lists show them."""
    found = [item async for item in on.harness.work(conversation_id=conversation.id) if item.tool]
    return {item.tool: item for item in await marked(on.client, found)}


async def call_of(on: Stage, conversation: Conversation, name: str) -> WorkItem:
    """The open call of that tool, once there is one alone."""
    found = await eventually(lambda: items(on, conversation), lambda found: list(found) == [name])
    return found[name]


async def test_code_of_a_named_worker_runs_there_and_everything_else_on_the_default_one(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, both(), tmp_path) as on, on.special("gpu"):
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        run = [one for one in await on.histories(conversation.id) if one.endswith("/g1")]
        ran = {slot: await scheduled(on.client, f"{run[0]}/t1.{slot}", on.settings.task_queue) for slot in (0, 1)}

    assert (answer.end, answer.texts) == ("done", ["rendered sea", "seen"])
    assert ran == {0: [("tool-run", "gpu")], 1: [("tool-run", "")]}


async def test_call_waits_in_sight_for_a_worker_that_nobody_has_started(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, both(), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        waiting = await call_of(on, conversation, "render")
        async with on.special("gpu"):
            answer = await answer_to(conversation, submission)

    assert (waiting.state, waiting.worker, waiting.unserved) == ("running", "gpu", True)
    assert waiting.queue == f"{on.settings.task_queue}/gpu"
    assert Explanation(waiting).why() == "waits for a worker that serves gpu: none is there"
    assert answer.texts == ["rendered sea", "seen"]


async def test_stop_ends_a_call_that_waits_for_a_worker(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, both(), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await call_of(on, conversation, "render")
        await conversation.abort()
        answer = await answer_to(conversation, submission)

    assert answer.end == "unanswered aborted"
    assert answer.codes == ["aborted", ""]


async def test_woken_call_and_its_cancel_hook_stay_with_the_worker(server: EmbeddedServer, tmp_path: Path) -> None:
    cleaned: list[str] = []

    def cancel(api: ToolApi) -> None:
        cleaned.append(api.task_id)

    waits = Waits(*(Sleep(signals=[ANSWER.key(key)], until=HOUR) for key in ("done", "more")), cancel=cancel)
    routed = replace(waits.tool, worker="gpu")
    async with stage(server, waiting_app(routed), tmp_path) as on, on.special("gpu"):
        parked = await start(on, routed)
        await parked.parked()
        await parked.update("done", {"text": "yes"})
        await parked.parked(2)
        await on.harness.abort(parked.id)
        outcome = await parked.ends()
        ran = await scheduled(on.client, parked.id, on.settings.task_queue)

    assert (outcome.code, cleaned) == ("aborted", [parked.id])
    assert ran == [("tool-run", "gpu"), ("tool-run", "gpu"), ("clean-up", "gpu")]


async def test_extension_names_the_worker_of_its_tools_and_a_tool_its_own(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    extension = Extension("pictures", [render, look], worker="cpu-farm")
    registry = App(extensions=[extension]).registry

    assert {name: one.worker for name, one in registry.tools.items()} == {"render": "gpu", "look": "cpu-farm"}
    assert registry.workers == ("cpu-farm", "gpu")
    assert {name: one.worker for name, one in registry.chosen(Agent()).tools.items()} == {
        "render": "gpu",
        "look": "cpu-farm",
    }


async def test_code_on_a_named_worker_keeps_memos_commits_and_creates(server: EmbeddedServer, tmp_path: Path) -> None:
    task: DurableTask[str, str] = DurableTask("app.shade", str, str, worker="gpu")

    @task.phase
    def begin(scene: str) -> Go:
        return Go("end", f"{scene} shaded")

    @task.phase
    def end(scene: str, api: ToolApi) -> str:
        return str(api.checkpoint)

    @tool(worker="gpu", replay="safe")
    async def scene(api: ToolApi) -> str:
        kept = await api.memo("seed", 7)
        await api.commit(key="note", notes=[f"seed {kept}"])
        shaded = await (await api.create_task(task, "sea", key="shade")).outcome()
        seen = await api.execute_tool("look", {})
        return f"{shaded.result}, {seen.text}"

    app = App(
        model=ScriptedModel([call("scene"), say("done")]), extensions=[Extension("test", [scene, look], tasks=[task])]
    )
    async with stage(server, app, tmp_path) as on, on.special("gpu"):
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        own = next(one for one in await on.histories(conversation.id) if one.endswith("/t1.0"))
        nested = [one for one in await on.histories(conversation.id) if one.startswith(f"{own}/")]
        ran = {one.removeprefix(own): await scheduled(on.client, one, on.settings.task_queue) for one in nested}

    assert (answer.texts, answer.notes) == (["sea shaded, seen"], ["seed 7"])
    assert sorted(ran.values()) == [[("task-run", "gpu"), ("task-run", "gpu")], [("tool-run", "")]]


async def test_durable_task_that_a_program_starts_runs_with_its_worker(server: EmbeddedServer, tmp_path: Path) -> None:
    task: DurableTask[str, str] = DurableTask("app.shade", str, str, worker="gpu")

    @task.phase
    def begin(scene: str) -> Sleep | str:
        return f"{scene} shaded"

    async with stage(server, App(extensions=[Extension("test", tasks=[task])]), tmp_path) as on:
        started = await on.harness.start_task(task, "sea")

        async def lists() -> list[tuple[str, str]]:
            return [(item.worker, item.state) async for item in on.harness.work(conversation_id=started.id)]

        waiting = await eventually(lists)
        async with on.special("gpu"):
            outcome = await started.outcome()

    assert waiting == [("gpu", "running")]
    assert outcome.result == "sea shaded"


def moved(waits: Waits, worker: str) -> Tool:
    return replace(waits.tool, worker=worker)


async def test_woken_call_follows_its_tool_to_the_worker_of_a_new_deploy(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=HOUR))
    async with idle_stage(server, waiting_app(moved(waits, "gpu")), tmp_path) as on:
        async with on.worker(), on.special("gpu"):
            parked = await start(on, moved(waits, "gpu"))
            await parked.parked()
        new = waiting_app(moved(waits, "big"))
        async with on.worker(new), on.special("gpu", new), on.special("big", new):
            await parked.update("done", {"text": "yes"})
            outcome = await parked.ends()
        ran = await scheduled(on.client, parked.id, on.settings.task_queue)
        described = await parked.handle.describe()

    assert outcome.text == "signal test.answer/done: yes"
    assert ran == [("tool-run", "gpu"), ("tool-run", "gpu"), ("tool-run", "big")]
    assert len(waits.seen) == 2
    assert described.typed_search_attributes.get(WORKER) == "big"


async def test_stopped_call_is_cleaned_up_where_it_ran_though_a_deploy_gives_its_tool_to_another_worker(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    cleaned: list[str] = []

    def cancel(api: ToolApi) -> None:
        cleaned.append(api.task_id)

    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=HOUR), cancel=cancel)
    async with idle_stage(server, waiting_app(moved(waits, "gpu")), tmp_path) as on:
        async with on.worker(), on.special("gpu"):
            parked = await start(on, moved(waits, "gpu"))
            await parked.parked()
        new = waiting_app(moved(waits, "big"))
        async with on.worker(new), on.special("gpu", new), on.special("big", new):
            await on.harness.abort(parked.id)
            outcome = await parked.ends()
        ran = await scheduled(on.client, parked.id, on.settings.task_queue)

    assert (outcome.code, cleaned) == ("aborted", [parked.id])
    assert ran == [("tool-run", "gpu"), ("clean-up", "gpu")]


async def test_tool_that_moved_back_to_the_default_worker_is_sent_there_by_any_worker_of_its_old_name(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits()
    async with idle_stage(server, waiting_app(moved(waits, "gpu")), tmp_path) as on:
        async with on.worker():
            begun = await start(on, moved(waits, "gpu"))
            await eventually(lambda: scheduled(on.client, begun.id, on.settings.task_queue))
        new = waiting_app(moved(waits, ""))
        async with on.worker(new), on.special("gpu", new):
            outcome = await begun.ends()
        ran = await scheduled(on.client, begun.id, on.settings.task_queue)

    assert (outcome.code, len(waits.seen)) == ("", 1)
    assert ran == [("tool-run", "gpu"), ("tool-run", "")]
