"""Steers that a run has placed, of whose conversation a reset has forgotten that: each stands once (spec §1.7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tests.support.held import HeldModel, HeldTool
from tests.support.stage import app_of, stage
from tests.support.waiting import eventually
from tests.workflow.test_reset import events_of, reset, texts


@pytest.mark.parametrize(("place", "left_out"), [("begin", "Signal"), ("run", "All")])
async def test_a_steer_that_the_last_round_of_the_open_run_has_placed_stands_once_after_a_reset_without_signals(
    server: EmbeddedServer, tmp_path: Path, place: str, left_out: str
) -> None:
    """Given a run that has placed a steer and asks its model for the last time, when its conversation is reset to
    before that, and hears of the steer again, or nothing more, then it is answered by that run, and by no other one."""
    held = HeldTool()
    model = HeldModel(ScriptedModel([calls(call("work", what="a")), *[say("done")] * 3]))
    model.go.set()
    async with stage(server, app_of(model, held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go on", request_id="go on")
        await held.begun()
        tasks = await events_of(on, conversation.id, "WORKFLOW_TASK_COMPLETED")
        model.go.clear()
        model.asked.clear()
        await conversation.submit("quickly", when_busy="steer", request_id="quickly")
        held.go.set()
        await model.asked.wait()

        before = str(tasks[0 if place == "begin" else -1])
        await reset(server, conversation.id, "--event-id", before, "--reapply-exclude", left_out)
        queued = ("quickly",) if left_out == "Signal" else ()
        await eventually(conversation.view, lambda view: bool(view.open_generation) and view.queued == queued)
        model.go.set()
        ends = [await first.wait()]
        again = await conversation.submit("quickly", when_busy="steer", request_id="quickly")
        ends.append(await again.wait())

        assert [end.generation_id for end in ends] == [ends[0].generation_id] * 2
        assert [end.answer_text for end in ends] == ["done", "done"]
        assert await texts(conversation) == ["go on", "", "did a", "quickly", "done"]
