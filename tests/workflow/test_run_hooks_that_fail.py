"""Hooks of a run that hang, fail, never end or never stop: the run goes on, and a Stop ends it (spec §6.5)."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tarry import App, Continue, DurableTask, Extension, Hooks, HookTask, Signal, Sleep, Turn
from tarry.client import Conversation
from tarry.core.messages import UserMessage
from tarry.core.transcript import Entry
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.answers import answer_to, ask
from tests.support.held import HeldModel
from tests.support.shell import succeeds
from tests.support.stage import Stage, stage
from tests.support.waiting import eventually

NEVER = Signal("app.never", 1, str)
MANY_TURNS = 12
PAGE = "x" * 20_000


@tool
def look(what: str) -> str:
    """Look at something."""
    return f"saw {what}"


def task_that(name: str, does: Any) -> DurableTask[str, object]:
    task: DurableTask[str, object] = DurableTask(name, str, object)

    @task.phase
    def begin(told: str) -> Any:
        return does(told)

    return task


def raises(told: str) -> Any:
    raise ValueError("broken task")


def app_with(model: ScriptedModel, hooks: Hooks, *tasks: DurableTask[Any, Any]) -> App:
    return App(model=model, extensions=[Extension("test", [look], [NEVER], tasks, hooks=hooks)])


def one_round() -> ScriptedModel:
    return ScriptedModel.for_each_input([calls(call("look", what="a")), say("done")])


def users(entries: Sequence[Entry]) -> list[str]:
    return [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]


async def test_tasks_that_fail_decide_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    decision = {"terminate": "yes", "continue": ["no"]}
    broken, vague = task_that("app.broken", raises), task_that("app.vague", lambda told: decision)
    tasks = [HookTask(task, "x") for task in (broken, vague)]
    hooks = Hooks(after_tools=lambda turn: tasks, on_yield=lambda turn: tasks)
    async with stage(server, app_with(one_round(), hooks, broken, vague), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, answer.text, users(answer.entries)) == ("done", "done", ["go"])


async def _hook_task(on: Stage) -> str:
    query = f'TaskQueue = "{on.settings.task_queue}" AND TarryState = "sleeping"'
    return "".join([found.id async for found in on.client.list_workflows(query)])


@pytest.mark.parametrize("moment", ["after_tools", "on_yield"])
async def test_a_task_that_never_ends_is_stopped_with_its_run(
    server: EmbeddedServer, tmp_path: Path, moment: str
) -> None:
    endless = task_that("app.endless", lambda told: Sleep(signals=[NEVER.key("never")]))
    hooks = Hooks(**{moment: lambda turn: [HookTask(endless, "x")]})  # type: ignore[arg-type]
    async with stage(server, app_with(one_round(), hooks, endless), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        task_id = await eventually(lambda: _hook_task(on))
        await conversation.abort()
        answer = await answer_to(conversation, submission)
        ended = await on.client.get_workflow_handle(task_id).result()

    assert (answer.end, ended["status"]) == ("unanswered aborted", "aborted")


async def test_a_task_that_is_terminated_from_outside_decides_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    endless = task_that("app.endless", lambda told: Sleep(signals=[NEVER.key("never")]))
    hooks = Hooks(on_yield=lambda turn: [HookTask(endless, "x")])
    async with stage(server, app_with(one_round(), hooks, endless), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await on.client.get_workflow_handle(await eventually(lambda: _hook_task(on))).terminate()
        answer = await answer_to(conversation, submission)

    assert (answer.end, answer.text) == ("done", "done")


async def test_a_hook_that_hangs_is_noted_and_changes_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    go = threading.Event()

    def hangs(turn: Turn) -> None:
        go.wait(60)

    async with stage(server, app_with(one_round(), Hooks(after_tools=hangs)), tmp_path) as on:
        answer = await ask(on.harness.conversation())
        go.set()

    assert (answer.end, answer.text) == ("done", "done")
    assert answer.notes == ["hook after_tools of test failed with TimeoutError: it gave no answer in time"]


async def test_a_stop_does_not_wait_for_a_hook_that_does_io(server: EmbeddedServer, tmp_path: Path) -> None:
    go, begun = threading.Event(), threading.Event()

    def hangs(turn: Turn) -> None:
        begun.set()
        go.wait(60)

    async def has_begun() -> bool:
        return begun.is_set()

    async with stage(server, app_with(one_round(), Hooks(on_yield=hangs, io=True)), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await eventually(has_begun)
        await conversation.abort()
        answer = await answer_to(conversation, submission)
        go.set()

    assert (answer.end, go.is_set()) == ("unanswered aborted", True)


async def test_a_hook_that_always_sends_the_agent_back_is_bounded_and_its_long_run_turns_over(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    def answer_long(request: ModelRequest) -> Reply:
        return say(PAGE)

    model = ScriptedModel.for_each_input([answer_long])
    hooks = Hooks(on_yield=lambda turn: Continue("again"))
    async with stage(server, app_with(model, hooks), tmp_path, max_turns=MANY_TURNS, turnover_events=30) as on:
        conversation = on.harness.conversation()
        answer = await ask(conversation)
        runs = await on.histories(conversation.id)

    assert (answer.end, users(answer.entries)) == ("unanswered max_turns", ["go", *["again"] * (MANY_TURNS - 1)])
    (run,) = [names for id, names in runs.items() if id.endswith("/g1")]
    assert "WORKFLOW_EXECUTION_CONTINUED_AS_NEW" in run


async def test_more_tasks_than_a_moment_may_have_are_told_of(server: EmbeddedServer, tmp_path: Path) -> None:
    ran: list[str] = []
    counted = task_that("app.counted", ran.append)
    hooks = Hooks(on_yield=lambda turn: [HookTask(counted, str(number)) for number in range(34)])
    async with stage(server, app_with(ScriptedModel([say("done")]), hooks, counted), tmp_path) as on:
        answer = await ask(on.harness.conversation())

    assert (answer.end, sorted(ran, key=int)) == ("done", [str(number) for number in range(32)])
    assert answer.notes == ["hooks on_yield returned 34 tasks; those after 32 were left out"]


async def test_a_reset_of_a_run_takes_over_what_the_tasks_of_its_hooks_decided(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """The reset goes to where the tasks had not been started; the second model request keeps the run open."""
    ran: list[str] = []

    def counts(told: str) -> dict[str, str]:
        ran.append(told)
        if told != "one":
            return {}
        model.go.clear()
        return {"continue": f"not {told}"}

    def answer(request: ModelRequest) -> Reply:
        return say("two" if request.messages[-1].text == "not one" else "one")

    counting = task_that("app.counting", counts)
    model = HeldModel(ScriptedModel.for_each_input([answer]))
    hooks = Hooks(on_yield=lambda turn: [HookTask(counting, turn.text)])
    extension = Extension("test", tasks=[counting], hooks=hooks)
    async with stage(server, App(model=model, extensions=[extension]), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        model.go.set()
        await eventually(lambda: _at_turn(on, conversation, 2))
        run_id = (await conversation.view()).open_generation or ""
        before = await _started_tasks(on, run_id)
        await succeeds(
            server, "workflow", "reset", "--workflow-id", run_id, "--reason", "drill", "--event-id", str(before)
        )
        model.go.set()
        settled = await answer_to(conversation, submission)

    assert (settled.end, settled.text, users(settled.entries)) == ("done", "two", ["go", "not one"])
    assert ran == ["one", "two"]


async def _at_turn(on: Stage, conversation: Conversation, turn: int) -> bool:
    view = await conversation.view()
    if view.open_generation is None:
        return False
    found = await on.client.get_workflow_handle(view.open_generation).query("tarry.view")
    return bool(found["turn"] == turn)


async def _started_tasks(on: Stage, run_id: str) -> int:
    """The workflow task that started the tasks of the run's hooks."""
    history = await on.client.get_workflow_handle(run_id).fetch_history()
    for event in history.events:
        if event.HasField("start_child_workflow_execution_initiated_event_attributes"):
            return event.start_child_workflow_execution_initiated_event_attributes.workflow_task_completed_event_id
    raise AssertionError("it started none")
