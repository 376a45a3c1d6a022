"""Waits for others that were ended by force: whoever waits is told all the same (spec §4.9)."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

from signals import Sleep
from tarry import SUBMISSION_SETTLED, App, DurableTask, Extension, ToolApi, Wait
from tarry.core.protocol import MEMO
from tarry.core.waiting import NOTIFY_MEMO
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, say
from tests.support.shell import succeeds
from tests.support.stage import stage
from tests.support.waiting import eventually
from workers.lost_sight import look


def waiting() -> DurableTask[str, str]:
    """Waits for the task of that id; without one for the end of a submission that nobody made."""
    task: DurableTask[str, str] = DurableTask("app.waits", str, str)

    @task.phase
    def begin(other: str, api: ToolApi) -> Wait | Sleep | str:
        if api.wake is not None:
            return " ".join(api.wake.ended)
        if other:
            return Wait([other], "all_settled")
        return Sleep(signals=[SUBMISSION_SETTLED.key("never")], until=timedelta(hours=1))

    return task


async def test_a_task_that_is_no_child_and_is_terminated_is_an_end_for_who_waits_for_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = waiting()
    app = App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", tasks=[waits])])
    async with stage(server, app, tmp_path) as on:
        other = await on.harness.start_task(waits, "", key="other")
        waiter = await on.harness.start_task(waits, other.id, key="waiter")
        await eventually(lambda: on.harness.task(waiter.id), lambda view: view.state == "waiting")
        assert await look(on.client, on.settings.task_queue) == 0

        await on.client.get_workflow_handle(other.id).terminate()

        # The lists are some milliseconds behind.
        await eventually(lambda: look(on.client, on.settings.task_queue))
        assert (await waiter.outcome()).result == other.id


async def test_a_memo_that_a_shell_wrote_in_the_place_of_a_promise_hides_no_other_wait(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = waiting()
    app = App(model=ScriptedModel([say("unused")]), extensions=[Extension("test", tasks=[waits])])
    async with stage(server, app, tmp_path) as on:
        odd = await on.harness.start_task(waits, "", key="odd")
        await eventually(lambda: on.harness.task(odd.id), lambda view: view.state == "sleeping")
        memo = {"key": f"{NOTIFY_MEMO}k", "value": 7, "run": 1, "attempt": 1}
        what = ("--workflow-id", odd.id, "--name", MEMO, "--input", json.dumps(memo))
        await succeeds(server, "workflow", "update", "execute", *what)

        assert await look(on.client, on.settings.task_queue) == 0
