"""Resets: an earlier place in history, and no effect done twice; what was done is adopted (spec §1.7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from tarry.client import Conversation
from tarry.core.protocol import CONVERSATION, SUBMIT
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tests.support.held import HeldTool
from tests.support.shell import succeeds
from tests.support.stage import Stage, app_of, kinds, stage
from tests.support.waiting import eventually


def works_on_inputs() -> ScriptedModel:
    """Calls `work` with each input's own text, then says `done`."""

    def decide(request: ModelRequest) -> Reply:
        return calls(call("work", what=request.messages[-1].text))

    return ScriptedModel.for_each_input([decide, say("done")])


async def events_of(on: Stage, workflow_id: str, kind: str) -> list[int]:
    """The ids of a workflow's events of one kind."""
    history = await on.client.get_workflow_handle(workflow_id).fetch_history()
    return [event.event_id for event in history.events if EventType.Name(event.event_type) == f"EVENT_TYPE_{kind}"]


async def reset(server: EmbeddedServer, workflow_id: str, *where: str) -> None:
    await succeeds(server, "workflow", "reset", "--workflow-id", workflow_id, "--reason", "drill", *where)


async def open_run(conversation: Conversation) -> str:
    """The workflow id of the run that is open."""
    generation_id = (await conversation.view()).open_generation
    assert generation_id is not None
    return generation_id


async def texts(conversation: Conversation) -> list[str]:
    """The text of every message, oldest first."""
    return [entry.message.text for entry in await conversation.transcript() if entry.message is not None]


@pytest.mark.parametrize("place", ["before the calls", "before their ends"])
async def test_reset_of_a_run_adopts_its_calls_finished_and_running(
    server: EmbeddedServer, tmp_path: Path, place: str
) -> None:
    held, finished = HeldTool(), HeldTool(name="finish")
    finished.go.set()
    model = ScriptedModel([calls(call("work", what="a"), call("finish", what="b")), say("done")])
    async with stage(server, app_of(model, held.tool, finished.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await held.begun()
        run_id = await open_run(conversation)
        await on.client.get_workflow_handle(f"{run_id}/t1.1").result()
        tasks = await events_of(on, run_id, "WORKFLOW_TASK_COMPLETED")

        await reset(server, run_id, "--event-id", str(tasks[1] if place == "before the calls" else tasks[2]))
        held.go.set()

        assert (await submission.wait()).answer_text == "done"
        assert await texts(conversation) == ["go on", "", "did a", "did b", "done"]
        assert (held.ledger, finished.ledger) == (["a"], ["b"])


async def test_reset_of_a_run_that_asks_for_other_arguments_gets_the_next_id(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    changed = False

    def decide(request: ModelRequest) -> Reply:
        return calls(call("work", what="new" if changed else "old"))

    async with stage(
        server, app_of(ScriptedModel([decide, say("done")]), held.tool), tmp_path, heartbeat_timeout=4.0
    ) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await held.begun()
        run_id = await open_run(conversation)
        changed = True

        await reset(server, run_id, "--type", "FirstWorkflowTask")
        await held.begun(2)
        held.go.set()

        assert (await submission.wait()).answer_text == "done"
        assert await texts(conversation) == ["go on", "", "did new", "done"]
        assert held.ledger == ["old", "new"]
        assert held.task_ids == [f"{run_id}/t1.0", f"{run_id}/t1.0~2"]
        assert (await on.client.get_workflow_handle(held.task_ids[0]).result())["code"] == "aborted"


@pytest.mark.parametrize("place", ["FirstWorkflowTask", "LastWorkflowTask"])
async def test_reset_of_a_conversation_adopts_its_runs(server: EmbeddedServer, tmp_path: Path, place: str) -> None:
    held = HeldTool()
    held.go.set()
    async with stage(server, app_of(works_on_inputs(), held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        before = [await (await conversation.submit(text, request_id=text)).wait() for text in ("a", "b")]
        entries = await conversation.transcript()

        await reset(server, conversation.id, "--type", place)

        assert [await conversation.submission(text).wait() for text in ("a", "b")] == before
        after = await conversation.transcript()
        assert [entry.chain for entry in after] == [entry.chain for entry in entries]
        assert held.ledger == ["a", "b"]
        assert (await (await conversation.submit("c")).wait()).answer_text == "done"
        assert held.ledger == ["a", "b", "c"]


async def test_reset_of_a_conversation_adopts_the_run_that_is_open(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    async with stage(server, app_of(works_on_inputs(), held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("a")
        await held.begun()

        await reset(server, conversation.id, "--type", "FirstWorkflowTask")
        held.go.set()

        assert (await submission.wait()).answer_text == "done"
        assert (await texts(conversation), held.ledger) == (["a", "", "did a", "done"], ["a"])


@pytest.mark.parametrize("turnover_events", [1_000, 10])
@pytest.mark.parametrize("told", ["what the run had asked", "nothing of that"])
async def test_a_steer_that_the_open_run_has_placed_is_not_placed_again_after_a_reset_of_its_conversation(
    server: EmbeddedServer, tmp_path: Path, told: str, turnover_events: int
) -> None:
    first, second = HeldTool("first"), HeldTool("second")
    script = [calls(call("first", what="a")), calls(call("second", what="b")), *[say("done")] * 3]
    app = app_of(ScriptedModel(script), first.tool, second.tool)
    async with stage(server, app, tmp_path, turnover_events=turnover_events) as on:
        conversation = on.harness.conversation()
        sent = [await conversation.submit("go on", request_id="go on")]
        await first.begun()
        sent.append(await conversation.submit("quickly", when_busy="steer", request_id="quickly"))
        first.go.set()
        await second.begun()
        sent.append(await conversation.submit("at once", when_busy="steer", request_id="at once"))

        left_out = () if told == "what the run had asked" else ("--reapply-exclude", "Signal")
        await reset(server, conversation.id, "--type", "FirstWorkflowTask", *left_out)
        await eventually(lambda: events_of(on, conversation.id, "EXTERNAL_WORKFLOW_EXECUTION_SIGNALED"))
        second.go.set()
        ends = [await submission.wait() for submission in sent]

        said = [text for text in await texts(conversation) if text in ("go on", "quickly", "at once")]
        assert said == ["go on", "quickly", "at once"]
        assert [end.status for end in ends] == ["done"] * 3


async def test_other_inputs_after_a_reset_are_runs_of_their_own(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    held.go.set()
    async with stage(server, app_of(works_on_inputs(), held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        for text in ("a", "b"):
            await (await conversation.submit(text)).wait()
        await reset(server, conversation.id, "--type", "FirstWorkflowTask", "--reapply-exclude", "All")

        other = await conversation.submit("c")

        settled = await other.wait()
        assert (settled.status, settled.answer_text) == ("done", "done")
        assert await texts(conversation) == ["c", "", "did c", "done"]
        assert (await (await conversation.submit("b")).wait()).answer_text == "done"
        assert kinds(await conversation.transcript()) == ["user", "assistant", "tool_result", "assistant"] * 2
        assert held.ledger == ["a", "b", "c", "b"]


async def test_reset_of_a_conversation_that_a_shell_started_keeps_its_ids(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    held.go.set()
    async with stage(server, app_of(works_on_inputs(), held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        await succeeds(
            server,
            *("workflow", "signal-with-start", "--type", CONVERSATION, "--task-queue", on.settings.task_queue),
            *("--workflow-id", conversation.id, "--input", "{}", "--signal-name", SUBMIT),
            *("--signal-input", '{"content": "a", "request_id": "r1"}'),
        )
        before = await conversation.submission("r1").wait()

        await reset(server, conversation.id, "--type", "FirstWorkflowTask")

        assert await conversation.submission("r1").wait() == before
        assert held.ledger == ["a"]


async def test_stop_after_a_reset_reaches_the_adopted_run(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    async with stage(server, app_of(works_on_inputs(), held.tool), tmp_path, heartbeat_timeout=4.0) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("a")
        await held.begun()
        await reset(server, conversation.id, "--type", "FirstWorkflowTask")
        await eventually(lambda: events_of(on, conversation.id, "ACTIVITY_TASK_SCHEDULED"))

        await conversation.abort()

        settled = await submission.wait()
        assert (settled.status, settled.reason) == ("unanswered", "aborted")
        assert kinds(await conversation.transcript()) == ["user", "assistant", "tool_result"]
        assert "was aborted on request while it ran" in (await texts(conversation))[2]


async def test_a_steer_that_a_run_had_placed_before_it_was_reset_is_answered_all_the_same(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    first, second = HeldTool("first"), HeldTool("second")

    def decide(request: ModelRequest) -> Reply:
        turns = sum(message.role == "assistant" for message in request.messages)
        if request.messages[-1].text == "quickly" and turns > 2:
            return say("quickly done")
        return [calls(call("first", what="a")), calls(call("second", what="b")), say("done")][min(turns, 2)]

    async with stage(server, app_of(ScriptedModel([decide] * 9), first.tool, second.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await first.begun()
        run_id = await open_run(conversation)
        tasks = await events_of(on, run_id, "WORKFLOW_TASK_COMPLETED")
        steer = await conversation.submit("quickly", when_busy="steer")
        first.go.set()
        await second.begun()

        # The run that goes on hears nothing of the steer: neither that there is one, nor what it was given.
        await reset(server, run_id, "--event-id", str(tasks[1]), "--reapply-exclude", "All")
        second.go.set()
        ends = [await submission.wait(), await steer.wait()]

        assert [end.status for end in ends] == ["done", "done"]
        assert (await texts(conversation)).count("quickly") == 1
        assert ends[1].generation_id not in ("", run_id)
