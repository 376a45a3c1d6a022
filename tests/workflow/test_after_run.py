"""Hooks after a run: told of every end, and their tasks outlive it (spec §6.5)."""

from __future__ import annotations

import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

from temporalio.client import WorkflowExecutionStatus

from tarry import App, DurableTask, Extension, Hooks, HookTask, RunEnded, Sleep, ToolApi
from tarry.embedded import EmbeddedServer
from tarry.models import Model
from tarry.testing import Fail, ScriptedModel, call, calls, say
from tarry.tools import Tool
from tests.support.answers import ask
from tests.support.held import HeldTool
from tests.support.shell import succeeds
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually


class Telling:
    """An `after_run` hook that keeps what it is told, and starts a task that keeps what it did."""

    def __init__(self, *, sleeps: bool = False) -> None:
        self.told: list[RunEnded] = []
        self.done: list[str] = []
        self.task: DurableTask[str, None] = DurableTask("app.tell", str, type(None))

        @self.task.phase
        def begin(text: str, api: ToolApi) -> Sleep | None:
            self.done.append(f"{text} by {api.task_id}")
            return Sleep(until=timedelta(hours=1)) if sleeps else None

    def hook(self, ended: RunEnded) -> list[HookTask]:
        self.told.append(ended)
        return [HookTask(self.task, ended.answer or ended.reason)]

    async def has_done(self, number: int) -> list[str]:
        """What its tasks did, once they did so much."""

        async def done() -> list[str]:
            return self.done

        return await eventually(done, lambda found: len(found) >= number)


def app_with(model: Model, telling: Telling, *tools: Tool, **hooks: Any) -> App:
    hooks = {"after_run": telling.hook, **hooks}
    return App(model=model, extensions=[Extension("test", tools, tasks=[telling.task], hooks=Hooks(**hooks))])


async def test_hooks_are_told_of_every_end_with_all_that_ended_and_their_tasks_start(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held, telling = HeldTool(), Telling()
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("fine")])
    async with stage(server, app_with(model, telling, held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        await conversation.submit("go", request_id="first")
        await held.begun()
        await conversation.submit("hurry", request_id="steer", when_busy="steer")
        held.go.set()
        await telling.has_done(1)
        held.go.clear()
        await conversation.submit("again", request_id="second")
        await held.begun(2)
        await conversation.abort()
        done = await telling.has_done(2)

    runs = [ended.generation_id for ended in telling.told]
    assert [(ended.request_ids, ended.answer, ended.reason) for ended in telling.told] == [
        (("first", "steer"), "fine", ""),
        (("second",), None, "aborted"),
    ]
    assert done == [f"fine by {runs[0]}/r0", f"aborted by {runs[1]}/r0"]


async def test_hooks_are_told_of_a_run_that_no_model_answered(server: EmbeddedServer, tmp_path: Path) -> None:
    telling = Telling()
    async with stage(server, app_with(ScriptedModel([Fail("permanent", "no such model")]), telling), tmp_path) as on:
        answer = await ask(on.harness.conversation())
        done = await telling.has_done(1)

    assert answer.end == "unanswered model_error"
    assert [(ended.reason, ended.detail) for ended in telling.told] == [("model_error", "no such model")]
    assert done[0].startswith("model_error by ")


async def test_their_tasks_outlive_the_run_and_a_stop_of_the_conversation(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    telling = Telling(sleeps=True)
    async with stage(server, app_with(ScriptedModel.for_each_input([say("fine")]), telling), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation)
        await telling.has_done(1)
        await conversation.abort()
        await ask(conversation, "and now?")
        await telling.has_done(2)
        parked = [f"{ended.generation_id}/r0" for ended in telling.told]
        status = [(await on.client.get_workflow_handle(task_id).describe()).status for task_id in parked]
        for task_id in parked:
            await on.harness.abort(task_id)

    assert status == [WorkflowExecutionStatus.RUNNING] * 2


async def test_a_hook_that_is_slow_holds_up_no_input(server: EmbeddedServer, tmp_path: Path) -> None:
    telling, go = Telling(), threading.Event()

    def slow(ended: RunEnded) -> list[HookTask]:
        assert go.wait(30)
        return telling.hook(ended)

    app = app_with(ScriptedModel.for_each_input([say("fine")]), telling, after_run=slow, io=True)
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        answers = [await ask(conversation, text) for text in ("one", "two")]
        told_by_then = list(telling.told)
        go.set()
        await telling.has_done(2)

    assert ([answer.end for answer in answers], told_by_then) == (["done", "done"], [])


async def test_a_hook_that_raises_is_noted(server: EmbeddedServer, tmp_path: Path) -> None:
    def raises(ended: RunEnded) -> None:
        raise ValueError("no")

    app = app_with(ScriptedModel.for_each_input([say("fine")]), Telling(), after_run=raises)
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation)
        entries = await eventually(conversation.transcript, lambda found: len(found) == 3)

    assert [entry.note for entry in entries] == [
        "",
        "",
        "hook after_run of test failed with ValueError: no",
    ]


async def test_a_reset_of_the_conversation_starts_no_task_twice(server: EmbeddedServer, tmp_path: Path) -> None:
    telling = Telling()
    async with stage(server, app_with(ScriptedModel.for_each_input([say("fine")]), telling), tmp_path) as on:
        conversation = on.harness.conversation()
        await conversation.submit("go", request_id="r")
        await telling.has_done(1)
        await _rest(on, conversation.id)
        await succeeds(
            server, "workflow", "reset", "--workflow-id", conversation.id, "--reason", "drill", "--event-id", "4"
        )

        async def told() -> list[RunEnded]:
            return telling.told

        await eventually(told, lambda found: len(found) == 2)
        answer = await ask(conversation, "and now?")
        await telling.has_done(2)

    assert [ended.generation_id[-2:] for ended in telling.told] == ["g1", "g1", "g2"]
    assert (answer.end, len(telling.done)) == ("done", 2)


async def _rest(on: Stage, conversation_id: str) -> None:
    """Return when the outbox of the conversation is acknowledged."""

    async def events() -> list[str]:
        return (await on.histories(conversation_id))[conversation_id]

    await eventually(events, lambda found: found.count("ACTIVITY_TASK_COMPLETED") >= 2)


async def test_a_run_of_an_application_without_such_hooks_costs_nothing_more(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, App(model=ScriptedModel.for_each_input([say("fine")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await ask(conversation)
        events = (await on.histories(conversation.id))[conversation.id]

    assert [name for name in events if name.startswith("ACTIVITY")] == []
