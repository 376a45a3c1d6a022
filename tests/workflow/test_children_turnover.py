"""A task whose history grows long while its children live: it does not turn over before they are over (spec §4.9)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from signals import Sleep
from tarry import App, DurableTask, Extension, Go, ToolApi, Wait
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, say
from tests.support.parking import ANSWER, Answer, Call
from tests.support.stage import stage
from tests.support.waiting import eventually


def child(aborted: list[str]) -> DurableTask[str, str]:
    """Ends when it is answered."""
    task: DurableTask[str, str] = DurableTask("app.child", str, str)

    @task.phase
    def begin(text: str, api: ToolApi) -> Sleep | str:
        return text.upper() if api.wake else Sleep(signals=[ANSWER.key("go")], until=timedelta(hours=1))

    @task.abort
    def stopped(text: str, api: ToolApi) -> None:
        aborted.append(api.task_id)

    return task


def parent(of: DurableTask[str, str]) -> DurableTask[str, str]:
    """Creates one, takes its steps, parks in between, and waits for it."""
    task: DurableTask[str, str] = DurableTask("app.parent", str, str)

    @task.phase
    async def begin(text: str, api: ToolApi) -> Go:
        await api.create_task(of, text, key="child")
        return Go("step", 0)

    @task.phase
    def step(text: str, api: ToolApi) -> Go | Sleep:
        done: int = api.checkpoint
        if done == 10:
            return Sleep(Go("wait"), until=timedelta(0))
        return Go("step", done + 1)

    @task.phase
    async def wait(text: str, api: ToolApi) -> Wait | str:
        created = await api.create_task(of, text, key="child")
        if api.wake is None or api.wake.reason != "tasks":
            return Wait([created.task_id], "all_settled")
        return f"{(await created.outcome()).result}!"

    return task


async def test_a_long_history_leaves_living_children_alone_and_their_owner_hears_of_their_end(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    aborted: list[str] = []
    created = child(aborted)
    app = App(
        model=ScriptedModel([say("unused")]),
        extensions=[Extension("test", signals=[ANSWER], tasks=[created, parent(created)])],
    )
    async with stage(server, app, tmp_path, turnover_events=20) as on:
        owner = await on.harness.start_task(app.registry.tasks["app.parent"], "hi")
        view = await eventually(lambda: on.harness.task(owner.id), lambda view: view.state == "waiting")
        await on.harness.signal(view.on[0], ANSWER, "go", Answer(text="go"))

        assert (await owner.outcome()).result == "HI!"
        assert aborted == []
        # Over the limit by far while the child lived; it turned over as soon as that was over.
        first, *later = await Call(on.client, owner.id).runs()
        assert len(first) > 60
        assert later
