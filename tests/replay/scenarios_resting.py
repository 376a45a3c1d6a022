"""What work rests at that no other scenario comes by, played to be kept: one for each such place (spec §22.4)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

from tarry import App, DurableTask, Extension, HookApi, HookCall, Hooks, Sleep, ToolApi, Wait
from tarry.client.registry import tell_made_current
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.replay.recorded_app import app as crashing
from tests.replay.recorded_app import crash_once
from tests.replay.scenarios import open_run, reset
from tests.replay.scenarios_tasks import app_with, report, research, state_of
from tests.replay.scenarios_turns import agent
from tests.replay.studio import Studio
from tests.support import deploys
from tests.support.parking import ANSWER, Answer


async def hooks_that_come_and_go(studio: Studio) -> None:
    """Hooks are announced, published, and made current with a build, under a call that waits at its gate."""
    old, new = deploys.app_of(deploys.Gate("people")), deploys.app_of(deploys.Gate("people", version="2"))
    async with studio.unserved_stage(old) as on:
        async with on.worker():
            await deploys.tell(on, old)
            await deploys.swept(on, 1)
            task_id = await deploys.start(on)
        async with on.worker(new):
            await on.harness.publish(new)
            await deploys.asked_under(on, task_id, new)
            now = datetime.now(UTC)
            await tell_made_current(on.client, on.settings.task_queue, old.registry.fingerprint, now)
            await deploys.swept(on, 3)
            await deploys.stop(on, task_id)


async def nested_call_found_again_after_a_reset(studio: Studio) -> None:
    """A call is reset to its beginning while a nested one of it is parked."""

    @tool(replay="safe")
    async def outer(api: ToolApi) -> Wait | str:
        nested = await api.execute_tool("research", {"topic": "a"}, key="a", wait=False)
        return Wait([nested.task_id]) if api.wake is None else (await nested.result()).text

    async with studio.conversation(app_with(outer, research)) as (on, conversation):
        submission = await conversation.submit("outer")
        owner = f"{await open_run(conversation)}/t1.0"
        await state_of(on, owner, "waiting")
        await state_of(on, f"{owner}/k.a", "sleeping")
        await reset(studio, owner)
        await state_of(on, owner, "waiting")
        await on.harness.signal(f"{owner}/k.a", ANSWER, "a", Answer(text="found"))
        await submission.wait()


async def calls_that_end_without_going_on(studio: Studio) -> None:
    """A subagent has given its permit back, its calls are stopped, and its run needs it again."""
    async with agent(studio) as (on, tree, conversation):
        run = await open_run(conversation)
        for slot in range(2):
            await on.harness.abort(f"{run}/t1.{slot}")
        await tree.has_been_told(2)
        await tree.grant()


async def held_task(studio: Studio) -> None:
    """A durable task that kills its worker each time is held, and then retried."""
    async with studio.crashing(crashing, restart_limit=1) as (on, _):
        task = await on.harness.start_task(crash_once, 3)
        await on.harness.retry(await studio.held(on))
        await task.outcome()


async def task_that_waits_for_its_own_calls(studio: Studio) -> None:
    """One that waits for a nested call; then it is stopped while that is parked."""
    task: DurableTask[str, str] = DurableTask("test.owner", str, str)

    @task.phase
    async def begin(topic: str, api: ToolApi) -> Wait | str:
        nested = await api.execute_tool("research", {"topic": topic}, key=topic, wait=False)
        return Wait([nested.task_id]) if api.wake is None else (await nested.result()).text

    async with studio.stage(app_with(research, tasks=(task,))) as on:
        for is_stopped in (False, True):
            started = await on.harness.start_task(task, "a")
            await state_of(on, started.id, "waiting")
            await state_of(on, f"{started.id}/k.a", "sleeping")
            if is_stopped:
                await on.harness.abort(started.id)
            else:
                await on.harness.signal(f"{started.id}/k.a", ANSWER, "a", Answer(text="over"))
            await started.outcome()


async def waits_for_a_time_alone(studio: Studio) -> None:
    """A call at a gate, and a durable task."""

    def quiet(call: HookCall, api: HookApi) -> Sleep:
        return Sleep(until=timedelta(hours=1))

    night: DurableTask[str, str] = DurableTask("test.night", str, str)

    @night.phase
    def sleep(what: str) -> Sleep:
        return Sleep(until=timedelta(hours=1))

    gates = Extension("quiet", tasks=[night], hooks=Hooks(before_tool=quiet))
    model = ScriptedModel.for_each_input([call("report", text="it"), say("done")])
    async with studio.stage(App(model=model, extensions=[Extension("test", [report]), gates])) as on:
        task = await on.harness.start_task(night, "till morning")
        await state_of(on, task.id, "sleeping")
        await on.harness.abort(await deploys.start(on))
        await on.harness.abort(task.id)
        await task.outcome()


RESTING: dict[str, Callable[[Studio], Awaitable[None]]] = {
    play.__name__: play
    for play in (
        hooks_that_come_and_go,
        nested_call_found_again_after_a_reset,
        calls_that_end_without_going_on,
        held_task,
        task_that_waits_for_its_own_calls,
        waits_for_a_time_alone,
    )
}
