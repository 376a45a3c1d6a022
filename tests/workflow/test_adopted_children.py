"""Children of a task that was reset: it takes them over, with how they end (spec §1.7, §4.9)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

from pydantic import BaseModel

from tarry import App, DurableTask, Extension, Signal, Sleep, ToolApi, Wait
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, say
from tests.support.stage import stage
from tests.support.waiting import eventually
from tests.workflow.test_call_resets import reset
from tests.workflow.test_reset import events_of


class News(BaseModel):
    text: str


NEWS = Signal("app.news", 1, News)


async def test_a_child_that_is_stopped_after_its_owner_was_reset_ends_a_wait_that_fails_fast(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a task that waits for two others until one fails, when it is reset, and one of them is stopped and leaves
    no words, then that is a failure, as it is to an owner that was not reset."""
    child: DurableTask[str, str] = DurableTask("app.child", str, str)
    parent: DurableTask[str, str] = DurableTask("app.parent", str, str)
    ids: list[str] = []

    @child.phase
    def listen(topic: str, api: ToolApi) -> Sleep:
        return Sleep(signals=[NEWS.key(topic)], until=timedelta(hours=1))

    @parent.phase
    async def begin(text: str, api: ToolApi) -> Wait | str:
        ids[:] = [(await api.create_task(child, topic, key=topic)).task_id for topic in ("one", "two")]
        return Wait(ids, "fail_fast") if api.wake is None else " ".join(api.wake.ended)

    app = App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", [], [NEWS], [child, parent])])
    async with stage(server, app, tmp_path) as on:
        task = await on.harness.start_task(parent, "hi")
        await eventually(lambda: on.harness.task(task.id), lambda view: view.state == "waiting")
        stopped, other = ids

        await reset(server, task.id, "FirstWorkflowTask")
        await eventually(lambda: on.harness.task(task.id), lambda view: view.state == "waiting")
        await eventually(lambda: events_of(on, task.id, "ACTIVITY_TASK_STARTED"))
        await on.harness.abort(stopped)

        assert (await task.outcome()).result == stopped
        assert (await on.client.get_workflow_handle(other).result())["status"] == "aborted"
