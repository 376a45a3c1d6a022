"""What is still known of a call when Temporal has forgotten its workflow (spec §1.8)."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import NoReturn

import pytest
from temporalio.client import Client

from signals import Sleep
from tarry import App, Extension, NoSuchTask
from tarry.client import tasks
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tests.support.parking import ANSWER, Waits
from tests.support.stage import stage
from tests.support.waiting import eventually


async def test_receipts_of_a_forgotten_call_are_read_from_the_transcript(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key("done")], until=timedelta(hours=1)))
    model = ScriptedModel([calls(call(waits.tool.name)), say("done")])
    app = App(model=model, extensions=[Extension("test", [waits.tool], [ANSWER])])
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await waits.ran(1)
        task_id = waits.task_ids[0]
        await eventually(lambda: on.harness.task(task_id), lambda view: view.state == "sleeping")
        await on.harness.signal(task_id, ANSWER.name, "done", {"text": "yes"}, delivery_id="d1")
        await submission.wait()
        known = await on.harness.receipt(task_id, "d1")

        async def forgotten(client: Client, wanted: str) -> NoReturn:
            raise NoSuchTask(f"there is no {wanted}")

        # Temporal takes most of a minute to delete one.
        monkeypatch.setattr(tasks, "describe_task", forgotten)

        assert known is not None
        assert await on.harness.receipt(task_id, "d1") == known
        assert await on.harness.receipt(task_id, "d2") is None
        with pytest.raises(NoSuchTask):
            await on.harness.receipt(f"{task_id}9", "d1")
