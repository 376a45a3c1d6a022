"""Activities that somebody at a shell pauses: nothing is taken for a Stop, and everything goes on (spec §4.4)."""

from __future__ import annotations

from pathlib import Path

from tarry.client import Submission
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tests.support.held import HeldModel, HeldTool
from tests.support.shell import succeeds
from tests.support.stage import Stage, app_of, kinds, stage
from tests.support.waiting import eventually


async def run_of(submission: Submission) -> str:
    """The workflow id of its run."""
    return (await submission.status()).generation_id


async def act(server: EmbeddedServer, verb: str, workflow_id: str, activity_id: str = "1") -> None:
    await succeeds(server, "activity", verb, "--activity-id", activity_id, "--workflow-id", workflow_id)


async def notes(on: Stage, submission: Submission) -> list[str]:
    entries = await on.harness.conversation(submission.conversation_id).transcript()
    return [entry.note for entry in entries if entry.kind == "note"]


async def test_paused_model_request_is_held_until_it_is_retried(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel([say("All is well.")]), "All is")
    async with stage(server, app_of(model), tmp_path, heartbeat_timeout=4.0) as on:
        submission = await on.harness.conversation().submit("How is it?")
        await model.asked.wait()
        run_id = await run_of(submission)

        await act(server, "pause", run_id)

        async def state() -> list[str]:
            return [item.state async for item in on.harness.work() if item.id == run_id]

        await eventually(state, lambda found: found == ["held"])
        model.go.set()
        await on.harness.retry(run_id)
        assert (await submission.wait()).answer_text == "All is well."
        entries = await on.harness.conversation(submission.conversation_id).transcript()
        assert kinds(entries) == ["user", "assistant", "note", "assistant"]
        assert await notes(on, submission) == ["Held: its model request was paused."]


async def test_model_request_that_is_reset_is_sent_again(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel([say("All is well.")]), "All is")
    async with stage(server, app_of(model), tmp_path, heartbeat_timeout=4.0) as on:
        submission = await on.harness.conversation().submit("How is it?")
        await model.asked.wait()

        await act(server, "reset", await run_of(submission))
        await model.cancelled.wait()
        model.go.set()

        assert (await submission.wait()).answer_text == "All is well."


async def test_pausing_what_follows_an_adopted_call_does_not_stop_the_call(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    model = ScriptedModel([call("work", what="a"), say("done")])
    async with stage(server, app_of(model, held.tool), tmp_path, heartbeat_timeout=4.0) as on:
        submission = await on.harness.conversation().submit("go")
        await held.begun()
        run_id = await run_of(submission)
        await succeeds(
            server, "workflow", "reset", "--workflow-id", run_id, "--reason", "drill", "--type", "FirstWorkflowTask"
        )

        async def adopting() -> list[str]:
            described = await on.client.get_workflow_handle(run_id).describe()
            pending = described.raw_description.pending_activities
            return [one.activity_id for one in pending if one.activity_type.name == "tarry.adopt"]

        [activity_id] = await eventually(adopting)
        await act(server, "pause", run_id, activity_id)

        async def paused() -> list[bool]:
            described = await on.client.get_workflow_handle(run_id).describe()
            return [
                one.paused and not one.HasField("last_started_time")
                for one in described.raw_description.pending_activities
            ]

        await eventually(paused, lambda found: found == [True])
        await act(server, "unpause", run_id, activity_id)
        held.go.set()

        assert (await submission.wait()).answer_text == "done"
        assert held.ledger == ["a"]
        entries = await on.harness.conversation(submission.conversation_id).transcript()
        assert [entry.message.text for entry in entries if entry.kind == "tool_result" and entry.message] == ["did a"]
