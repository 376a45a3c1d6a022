"""Model requests and the store: what streams stays out of it, and what they need from it is waited for (spec §4.11)."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload

from tarry.core.protocol import VIEW, Progress
from tarry.core.views import GenerationView
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, say
from tests.support.held import HeldModel
from tests.support.stage import Stage, app_of, idle_stage, stage
from tests.support.waiting import eventually
from workers import worker


async def heartbeat(on: Stage, workflow_id: str) -> list[Payload]:
    """What the only open activity of a workflow carried last, as it stands on the server."""
    described = await on.client.get_workflow_handle(workflow_id).describe()
    [pending] = described.raw_description.pending_activities
    return list(pending.heartbeat_details.payloads)


@pytest.mark.parametrize("character", ["a", "あ", "\n", "\x01"], ids=ascii)
async def test_heartbeats_of_a_long_answer_never_go_to_the_store(
    server: EmbeddedServer, tmp_path: Path, character: str
) -> None:
    text = character * 60_000 + "end"
    model = HeldModel(ScriptedModel([say("done")]), text)
    async with stage(server, app_of(model), tmp_path / "store") as on:
        submission = await on.harness.conversation().submit("go")
        await model.asked.wait()
        assert submission.view is not None
        run_id = submission.view.generation_id

        [payload] = await eventually(
            lambda: heartbeat(on, run_id), lambda found: b"end" in b"".join(map(bytes_of, found))
        )
        [progress] = await on.client.data_converter.decode([payload], [Progress])
        model.go.set()
        await submission.wait()

    shown = text.replace("\x01", "")
    assert (progress.text, len(payload.external_payloads)) == (shown[progress.offset :], 0)
    assert not (tmp_path / "store").exists()


def bytes_of(payload: Payload) -> bytes:
    return payload.data


async def test_store_that_is_away_for_longer_than_a_request_waits_is_asked_again(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "STORE_PATIENCE", timedelta(0))
    app = app_of(ScriptedModel.for_each_input([say("done")]))
    async with idle_stage(server, app, tmp_path / "store") as on:
        conversation = on.harness.conversation()
        async with on.worker():
            await (await conversation.submit("x" * 100_000)).wait()
            await eventually(conversation.view, lambda found: bool(found.pages))
        shutil.move(tmp_path / "store", tmp_path / "away")

        async with on.worker():
            submission = await conversation.submit("go on")
            assert submission.view is not None
            run = on.client.get_workflow_handle(submission.view.generation_id)

            async def phase() -> str:
                view: GenerationView = await run.query(VIEW, result_type=GenerationView)
                return view.phase

            await eventually(phase, lambda found: found == "retry")
            shutil.move(tmp_path / "away", tmp_path / "store")

            assert (await submission.wait()).answer_text == "done"
