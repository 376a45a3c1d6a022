"""Tool calls that are reset, or taken from their worker, at a shell: no effect is done twice (spec §1.7, §4.3)."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from tarry.api import StaleRun, ToolApi
from tarry.client import Submission
from tarry.core.messages import ToolMessage
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tarry.tools import Replay, tool
from tests.support.held import HeldTool
from tests.support.shell import succeeds
from tests.support.stage import Stage, app_of, stage
from tests.support.waiting import eventually


def works_once() -> ScriptedModel:
    return ScriptedModel([call("work", what="a"), say("done")])


async def task_of(submission: Submission) -> str:
    """The id of the only call of a run."""
    return f"{(await submission.status()).generation_id}/t1.0"


async def reset(server: EmbeddedServer, task_id: str, place: str) -> None:
    await succeeds(server, "workflow", "reset", "--workflow-id", task_id, "--reason", "drill", "--type", place)


async def eventually_set(event: threading.Event) -> None:
    async def is_set() -> bool:
        return event.is_set()

    await eventually(is_set)


async def result(on: Stage, submission: Submission) -> str:
    """What the model read of the only call of a conversation."""
    entries = await on.harness.conversation(submission.conversation_id).transcript()
    [text] = [entry.message.text for entry in entries if isinstance(entry.message, ToolMessage)]
    return text


@pytest.mark.parametrize(("replay", "runs", "told"), [("unsafe", 1, "Tool work was interrupted"), ("safe", 2, "did a")])
async def test_reset_of_a_running_call_runs_only_a_safe_tool_again(
    server: EmbeddedServer, tmp_path: Path, replay: Replay, runs: int, told: str
) -> None:
    held = HeldTool(replay=replay)
    async with stage(server, app_of(works_once(), held.tool), tmp_path, heartbeat_timeout=4.0) as on:
        submission = await on.harness.conversation().submit("go")
        await held.begun()

        await reset(server, await task_of(submission), "LastWorkflowTask")
        await held.begun(runs)
        if runs > 1:
            held.go.set()

        assert (await submission.wait()).answer_text == "done"
        assert told in await result(on, submission)
        assert held.ledger == ["a"] * runs


async def test_reset_of_a_finished_unsafe_call_runs_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    held.go.set()
    async with stage(server, app_of(works_once(), held.tool), tmp_path) as on:
        submission = await on.harness.conversation().submit("go")
        await submission.wait()
        task_id = await task_of(submission)

        await reset(server, task_id, "FirstWorkflowTask")

        assert (await on.client.get_workflow_handle(task_id).result())["code"] == "interrupted"
        assert (held.ledger, await result(on, submission)) == (["a"], "did a")


async def test_run_that_a_reset_cut_off_writes_no_memo_of_the_one_that_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    begun, overtaken, refused = threading.Event(), threading.Event(), threading.Event()

    @tool(replay="safe")
    def work(what: str, api: ToolApi) -> str:
        if api.attempt == 1:
            begun.set()
            assert overtaken.wait(20)
            with pytest.raises(StaleRun):
                api.memo_sync("chosen", "by the old run")
            refused.set()
            return "old"
        overtaken.set()
        assert refused.wait(20)
        return str(api.memo_sync("chosen", "by the new run"))

    # It does not hear of the reset by a heartbeat first.
    async with stage(server, app_of(works_once(), work), tmp_path, heartbeat_timeout=120.0) as on:
        submission = await on.harness.conversation().submit("go")
        await eventually_set(begun)

        await reset(server, await task_of(submission), "LastWorkflowTask")

        assert (await submission.wait()).answer_text == "done"
        assert await result(on, submission) == "by the new run"


@pytest.mark.parametrize("verb", ["pause", "reset"])
async def test_unsafe_tool_that_is_taken_from_its_worker_is_interrupted_with_its_output(
    server: EmbeddedServer, tmp_path: Path, verb: str
) -> None:
    held = HeldTool()
    async with stage(server, app_of(works_once(), held.tool), tmp_path, heartbeat_timeout=4.0) as on:
        submission = await on.harness.conversation().submit("go")
        await held.begun()

        await succeeds(server, "activity", verb, "--activity-id", "1", "--workflow-id", await task_of(submission))

        assert (await submission.wait()).answer_text == "done"
        text = await result(on, submission)
        assert text.startswith("working on a\n")
        assert "Tool work was interrupted" in text
        assert held.ledger == ["a"]
