"""Durable tasks, nested calls, commits and expectations, played to be kept."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any
from unittest import mock

from activities.task import nesting
from signals.parking import Sleep, Wait
from tarry.api import Received, Send, Start, ToolApi
from tarry.app import App, Extension
from tarry.client import DurableTaskHandle
from tarry.core.expectation import Kept
from tarry.core.waiting import CHILD_END, ChildEnd, TaskView
from tarry.tasks import DurableTask, Go
from tarry.testing import ScriptedModel, call, say
from tarry.tools import Tool, tool
from tarry.webhooks import expect
from tarry.webhooks.registry import keep
from tests.replay.scenarios import reset
from tests.replay.studio import Studio
from tests.support.parking import ANSWER, HOUR, YES, Answer, Waits, start, waiting_app
from tests.support.stage import Stage, kinds
from tests.support.waiting import eventually

FOREVER = Sleep(until=HOUR, signals=[ANSWER.key("done")])


def asking(name: str = "test.ask") -> DurableTask[str, str]:
    """Two phases with a memo, a park between them, and an abort handler."""
    task: DurableTask[str, str] = DurableTask(name, str, str)

    @task.phase
    async def ask(question: str, api: ToolApi) -> Go:
        await api.memo("asked", question)
        return Go("wait", {"asked": question})

    @task.phase
    def wait(question: str) -> Sleep:
        return Sleep(Go("read", 7), until=HOUR, signals=[ANSWER.key("done")], ask=question)

    @task.phase
    async def read(question: str, api: ToolApi) -> str:
        found = await api.read_signal(ANSWER, "done")
        return found.value.text if isinstance(found, Received) else "nothing"

    @task.abort
    async def stopped(question: str, api: ToolApi) -> None:
        await api.memo("stopped", api.checkpoint)

    return task


def app_with(*tools: Tool, tasks: tuple[DurableTask[Any, Any], ...] = ()) -> App:
    """Each input is answered by a call of the tool that it names, and then in text."""
    model = ScriptedModel.for_each_input([lambda request: call(request.messages[-1].text), say("done")])
    return App(model=model, extensions=[Extension("test", [*tools, nothing], [ANSWER], tasks)])


@tool(replay="safe")
async def research(topic: str, api: ToolApi) -> Sleep | str:
    """Wait for news of a topic."""
    found = await api.read_signal(ANSWER, topic)
    return found.value.text if isinstance(found, Received) else Sleep(signals=[ANSWER.key(topic)], until=HOUR)


@tool
def report(text: str) -> str:
    """Report something."""
    return text


@tool
def fails() -> str:
    """Fail."""
    raise ValueError("broken")


@tool
def nothing() -> None:
    """Do nothing."""


async def state_of(on: Stage, task_id: str, state: str) -> TaskView:
    """The view of a task that exists and is in that state."""

    async def listed() -> bool:
        return any([item.id == task_id and item.state == state async for item in on.harness.work()])

    await eventually(listed)
    return await on.harness.task(task_id)


async def start_and_park(on: Stage, task: DurableTask[str, str]) -> DurableTaskHandle[str]:
    started = await on.harness.start_task(task, "why?")
    await state_of(on, started.id, "sleeping")
    return started


async def durable_task(studio: Studio) -> None:
    task = asking()
    async with studio.stage(app_with(tasks=(task,))) as on:
        started = await start_and_park(on, task)
        await on.harness.signal(started.id, ANSWER, "done", Answer(text="because"))
        await started.outcome()


async def durable_task_parked(studio: Studio) -> None:
    task = asking()
    async with studio.stage(app_with(tasks=(task,))) as on:
        await start_and_park(on, task)


async def durable_task_stopped(studio: Studio) -> None:
    task = asking()
    async with studio.stage(app_with(tasks=(task,))) as on:
        started = await start_and_park(on, task)
        await on.harness.abort(started.id)
        await started.outcome()


async def durable_task_that_fails(studio: Studio) -> None:
    task: DurableTask[str, str] = DurableTask("test.broken", str, str)

    @task.phase
    def begin(question: str) -> str:
        raise ValueError(f"no answer to {question}")

    async with studio.stage(app_with(tasks=(task,))) as on:
        await (await on.harness.start_task(task, "why?")).outcome()


async def durable_task_of_many_steps(studio: Studio) -> None:
    task: DurableTask[int, int] = DurableTask("test.count", int, int)

    @task.phase
    def step(upto: int, api: ToolApi) -> Go | int:
        reached = (api.checkpoint or 0) + 1
        return reached if reached == upto else Go("step", reached)

    async with studio.stage(app_with(tasks=(task,)), turnover_events=20) as on:
        await (await on.harness.start_task(task, 6)).outcome()


async def committed_by_a_tool(studio: Studio) -> None:
    task, reader = asking(), Waits(FOREVER, name="reads")
    told: list[str] = []

    @tool
    async def publish(api: ToolApi) -> str:
        sends = [Send(told[0], ANSWER, "done", Answer(text="yes")), Send("task-nobody", ANSWER, "a", Answer(text="no"))]
        for _ in range(2):
            await api.commit(
                key="publish",
                notes=["published"],
                inputs=["nothing"],
                signals=sends,
                tasks=[Start(task, "why?", "ask")],
            )
        return "published"

    async with studio.stage(app_with(publish, reader.tool, tasks=(task,))) as on:
        parked = await start(on, reader.tool)
        told.append(parked.id)
        await parked.parked()
        conversation = on.harness.conversation()
        await (await conversation.submit("publish")).wait()
        await parked.ends()
        started = f"{conversation.id}~{(await conversation.view()).nonce}/k.ask"
        await state_of(on, started, "sleeping")
        await on.harness.signal(started, ANSWER, "done", Answer(text="because"))
        await eventually(conversation.transcript, lambda found: found[-1].kind == "assistant" and len(kinds(found)) > 7)


async def notes_that_wait_for_the_end_of_a_run(studio: Studio) -> None:
    go = threading.Event()

    @tool
    async def publish(api: ToolApi) -> str:
        await api.commit(key="first", notes=["one", "two"])
        await api.commit(key="second", notes=["three"])
        return "published"

    @tool
    def hold(api: ToolApi) -> str:
        while not go.wait(0.02):
            if api.is_cancelled:
                return "stopped"
        return "held"

    both = ScriptedModel([call("publish"), call("hold"), say("done")])
    app = App(model=both, extensions=[Extension("test", [publish, hold])])
    async with studio.stage(app, turnover_events=10) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await eventually(conversation.transcript, lambda found: len(kinds(found)) == 4)
        go.set()
        await submission.wait()
        await (await conversation.submit("and now?")).wait()


async def nested_calls(studio: Studio) -> None:
    @tool(replay="safe")
    async def both(api: ToolApi) -> Wait | str:
        await api.execute_tool("report", {"text": "hi"}, key="report")
        await api.execute_tool("nowhere", {}, key="nowhere")
        started = [await api.execute_tool("research", {"topic": topic}, key=topic, wait=False) for topic in ("a", "b")]
        done = {*(api.checkpoint or []), *(api.wake.ended if api.wake else ())}
        waiting = [nested.task_id for nested in started if nested.task_id not in done]
        return Wait(waiting, "any", sorted(done)) if waiting else "both"

    async with studio.conversation(app_with(both, research, report)) as (on, conversation):
        submission = await conversation.submit("both")
        owner = f"{(await conversation.view()).open_generation}/t1.0"
        for topic in ("b", "a"):
            await state_of(on, f"{owner}/k.{topic}", "sleeping")
            await on.harness.signal(f"{owner}/k.{topic}", ANSWER, topic, Answer(text=topic))
        await submission.wait()


async def nested_call_that_fails_beside_one_that_waits(studio: Studio) -> None:
    @tool(replay="safe")
    async def both(api: ToolApi) -> Wait | str:
        waits = await api.execute_tool("research", {"topic": "never"}, key="waits", wait=False)
        broken = await api.execute_tool("fails", {}, key="broken", wait=False)
        return Wait([waits.task_id, broken.task_id], "fail_fast") if api.wake is None else "one failed"

    async with studio.conversation(app_with(both, research, fails)) as (_, conversation):
        await (await conversation.submit("both")).wait()


async def stopped_while_a_nested_call_waits(studio: Studio) -> None:
    @tool(replay="safe", cancel=lambda: None)
    async def outer(api: ToolApi) -> Wait:
        return Wait([(await api.execute_tool("research", {"topic": "never"}, key="waits", wait=False)).task_id])

    async with studio.conversation(app_with(outer, research)) as (on, conversation):
        submission = await conversation.submit("outer")
        owner = f"{(await conversation.view()).open_generation}/t1.0"
        await state_of(on, owner, "waiting")
        await state_of(on, f"{owner}/k.waits", "sleeping")
        await conversation.abort()
        await submission.wait()


async def awaits_a_nested_call_in_the_middle(studio: Studio) -> None:
    @tool(replay="safe")
    async def outer(api: ToolApi) -> str:
        return (await api.execute_tool("research", {"topic": "a"})).text

    with mock.patch.object(nesting, "PATIENCE", 0.2):
        async with studio.conversation(app_with(outer, research)) as (on, conversation):
            submission = await conversation.submit("outer")
            owner = f"{(await conversation.view()).open_generation}/t1.0"
            view = await state_of(on, owner, "waiting")
            await state_of(on, view.on[0], "sleeping")
            await on.harness.signal(view.on[0], ANSWER, "a", Answer(text="yes"))
            await submission.wait()


async def waits_for_tasks_that_are_no_children(studio: Studio) -> None:
    task: DurableTask[list[str], str] = DurableTask("test.waits", list[str], str)

    @task.phase
    def begin(others: list[str], api: ToolApi) -> Wait | str:
        return Wait(others) if api.wake is None else "over"

    asked = asking()
    async with studio.stage(app_with(tasks=(task, asked))) as on:
        other = await start_and_park(on, asked)
        waiting = await on.harness.start_task(task, [other.id, "task-nobody"])
        await state_of(on, waiting.id, "waiting")
        await on.harness.signal(other.id, ANSWER, "done", Answer(text="because"))
        await waiting.outcome()


async def expected_webhooks(studio: Studio) -> None:
    waits = Waits(FOREVER)
    async with studio.stage(waiting_app(waits.tool)) as on:
        parked = await start(on, waits.tool)
        await parked.parked()
        queue = on.settings.task_queue
        early = Kept(value=YES, delivery_id="event-1")
        await keep(on.client, "ci", parked.id, early, task_queue=queue, unexpected_for=HOUR, anew=True)
        for _ in range(2):
            await expect(on.client, "ci", parked.id, parked.id, ANSWER.key("done"), task_queue=queue)
        await parked.ends()


async def adopted_child_that_was_stopped(studio: Studio) -> None:
    """A task that waits for two until one fails is reset; then one is stopped, which ends the wait."""
    await _with_an_adopted_child_stopped(studio, stops_owner=False)


async def adopted_child_that_failed_for_nobody(studio: Studio) -> None:
    """The same, kept from when that ended no wait: the owner is stopped, too."""
    await _with_an_adopted_child_stopped(studio, stops_owner=True)


async def _with_an_adopted_child_stopped(studio: Studio, *, stops_owner: bool) -> None:
    child: DurableTask[str, str] = DurableTask("test.child", str, str)
    parent: DurableTask[str, str] = DurableTask("test.parent", str, str)
    ids: list[str] = []

    @child.phase
    def listen(topic: str) -> Sleep:
        return Sleep(signals=[ANSWER.key(topic)], until=HOUR)

    @parent.phase
    async def begin(text: str, api: ToolApi) -> Wait | str:
        ids[:] = [(await api.create_task(child, topic, key=topic)).task_id for topic in ("one", "two")]
        return Wait(ids, "fail_fast") if api.wake is None else "over"

    async with studio.stage(app_with(tasks=(child, parent))) as on:
        task = await on.harness.start_task(parent, "hi")
        await eventually(lambda: on.harness.task(task.id), lambda view: view.state == "waiting")
        await reset(studio, task.id)
        await eventually(lambda: on.harness.task(task.id), lambda view: view.state == "waiting")
        owner = on.client.get_workflow_handle(task.id)
        await on.harness.abort(ids[0])
        ask: Callable[[], Awaitable[ChildEnd]] = partial(owner.query, CHILD_END, ids[0], result_type=ChildEnd)
        await eventually(ask, lambda end: end.is_over)
        if stops_owner:
            await on.harness.abort(task.id)
        await task.outcome()


TASKS: dict[str, Callable[[Studio], Awaitable[None]]] = {
    play.__name__: play
    for play in (
        durable_task,
        durable_task_parked,
        durable_task_stopped,
        durable_task_that_fails,
        durable_task_of_many_steps,
        committed_by_a_tool,
        notes_that_wait_for_the_end_of_a_run,
        nested_calls,
        nested_call_that_fails_beside_one_that_waits,
        stopped_while_a_nested_call_waits,
        awaits_a_nested_call_in_the_middle,
        waits_for_tasks_that_are_no_children,
        expected_webhooks,
        adopted_child_that_was_stopped,
    )
}
