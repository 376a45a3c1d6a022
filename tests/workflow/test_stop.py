"""Stop: what was open has one aborted end each, nothing starts after it, and the conversation lives on (spec §7.4)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus
from temporalio.service import RPCError

from tarry.client import Conversation
from tarry.core.messages import AssistantMessage, ToolMessage
from tarry.core.protocol import SubmissionView
from tarry.core.transcript import PAGE_BYTES, Entry
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.store import BlobStore
from tarry.testing import Reply, ScriptedModel, call, calls, fail, raw_call, say
from tarry.tools import tool
from tests.support.archives import fill_archive
from tests.support.held import HeldMethod, HeldModel, HeldTool
from tests.support.shell import succeeds
from tests.support.stage import Stage, app_of, idle_stage, kinds, stage
from tests.support.waiting import eventually

QUICK = {"heartbeat_timeout": 4.0}
"""A running activity learns of a Stop by its heartbeats: four a second, then."""


@tool
def quick(what: str) -> str:
    """Do it at once."""
    return f"did {what}"


def works_once(*first: str) -> ScriptedModel:
    """Calls `work` for each of `first`; every later input is answered by `fine`."""

    def decide(request: ModelRequest) -> Reply:
        inputs = [message for message in request.messages if message.role == "user"]
        return calls(*(call("work", what=what) for what in first)) if len(inputs) == 1 else say("fine")

    return ScriptedModel.for_each_input([decide, say("done")])


def codes(entries: Sequence[Entry]) -> list[tuple[str, str]]:
    """Each result's call id and code, in order."""
    return [
        (entry.message.call_id, entry.tool.code)
        for entry in entries
        if isinstance(entry.message, ToolMessage) and entry.tool is not None
    ]


async def next_answer(conversation: Conversation) -> str | None:
    """What the conversation answers now: it is usable, and its transcript is one that a strict provider takes."""
    settled = await (await conversation.submit("and now?")).wait()
    assert settled.status == "done", settled
    return settled.answer_text


def is_aborted(settled: SubmissionView) -> bool:
    return (settled.status, settled.reason) == ("unanswered", "aborted")


async def is_over(on: Stage, workflow_id: str) -> bool:
    return (await on.client.get_workflow_handle(workflow_id).describe()).status != WorkflowExecutionStatus.RUNNING


async def open_run(conversation: Conversation) -> str:
    """The workflow id of the run that is open."""
    generation_id = (await conversation.view()).open_generation
    assert generation_id is not None
    return generation_id


async def test_stop_of_an_idle_conversation_does_not_touch_the_next_run(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(ScriptedModel.for_each_input([say("fine")])), tmp_path) as on:
        conversation = on.harness.conversation()
        assert await next_answer(conversation) == "fine"

        await conversation.abort()
        await conversation.abort()

        assert await next_answer(conversation) == "fine"
        assert kinds(await conversation.transcript()) == ["user", "assistant"] * 2


async def test_stop_during_a_model_request_keeps_what_was_streamed(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel.for_each_input([say("fine")]), partial="I was about to")
    async with stage(server, app_of(model), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await model.asked.wait()

        await conversation.abort()

        assert is_aborted(await submission.wait())
        _, aborted = await conversation.transcript()
        assert aborted.message == AssistantMessage(text="I was about to", stop="aborted")
        model.go.set()
        assert await next_answer(conversation) == "fine"


async def test_stop_during_tools_gives_each_open_call_one_aborted_result_in_call_order(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    round_of_four = calls(
        call("work", what="a"), call("quick", what="b"), call("work", what="c"), raw_call("work", "not JSON")
    )
    model = ScriptedModel([round_of_four, say("fine")])
    async with stage(server, app_of(model, held.tool, quick), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await held.begun(2)
        second = f"{await open_run(conversation)}/t1.1"
        await eventually(lambda: is_over(on, second))

        await conversation.abort()

        assert is_aborted(await submission.wait())
        entries = await conversation.transcript()
        assert kinds(entries) == ["user", "assistant", *["tool_result"] * 4]
        assert codes(entries) == [
            ("call_0_0", "aborted"),
            ("call_0_1", ""),
            ("call_0_2", "aborted"),
            ("call_0_3", "invalid_arguments"),
        ]
        assert "working on a" in str(entries[3].message)
        assert await next_answer(conversation) == "fine"
        assert sorted(held.ledger) == ["a", "c"]


async def test_stop_during_a_sequential_round_never_starts_the_calls_behind(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool(sequential=True)
    async with stage(server, app_of(works_once("a", "b"), held.tool), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await held.begun()

        await conversation.abort()

        assert is_aborted(await submission.wait())
        *_, first, second = await conversation.transcript()
        assert codes([first, second]) == [("call_0_0", "aborted"), ("call_0_1", "aborted")]
        assert "while it ran" in str(first.message)
        assert "before it was started" in str(second.message)
        assert (await next_answer(conversation), held.ledger) == ("fine", ["a"])


async def test_calls_of_a_response_that_came_after_the_stop_are_not_started(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    model = HeldModel(works_once("a", "b"), deaf=True)
    async with stage(server, app_of(model, held.tool), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await model.asked.wait()
        await conversation.abort()
        await model.cancelled.wait()

        model.go.set()

        assert is_aborted(await submission.wait())
        entries = await conversation.transcript()
        assert kinds(entries) == ["user", "assistant", "tool_result", "tool_result"]
        assert codes(entries) == [("call_0_0", "aborted"), ("call_0_1", "aborted")]
        assert (await next_answer(conversation), held.ledger) == ("fine", [])


async def test_stop_withdraws_what_is_queued_and_serves_what_comes_after(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    async with stage(server, app_of(works_once("a"), held.tool), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        submitted = [await conversation.submit(text) for text in ("open", "queued", "queued too")]
        await held.begun()

        await conversation.abort()
        after = await conversation.submit("after")

        assert [is_aborted(await submission.wait()) for submission in submitted] == [True] * 3
        assert (await after.wait()).answer_text == "fine"
        assert kinds(await conversation.transcript()) == ["user", "assistant", "tool_result", "user", "assistant"]


async def test_stop_ends_the_wait_for_a_provider_at_once(server: EmbeddedServer, tmp_path: Path) -> None:
    model = ScriptedModel([fail("retryable", "busy", retry_after=600.0), say("fine")])
    async with stage(server, app_of(model), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await eventually(conversation.transcript, lambda entries: kinds(entries) == ["user", "note"])

        await conversation.abort()

        assert is_aborted(await submission.wait())
        assert await next_answer(conversation) == "fine"


async def test_stop_reaches_a_run_that_has_continued_as_new(lowered_server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    model = ScriptedModel([*[call("quick", what=str(n)) for n in range(4)], call("work", what="a"), say("fine")])
    async with stage(lowered_server, app_of(model, quick, held.tool), tmp_path, turnover_events=10, **QUICK) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await held.begun()
        found = await on.client.count_workflows(f'WorkflowId = "{await open_run(conversation)}"')
        assert found.count > 1

        await conversation.abort()

        assert is_aborted(await submission.wait())
        assert [code for _, code in codes(await conversation.transcript())] == ["", "", "", "", "aborted"]
        assert await next_answer(conversation) == "fine"


@pytest.mark.parametrize("target", ["conversation", "generation", "call"])
async def test_cancel_of_any_workflow_means_stop(server: EmbeddedServer, tmp_path: Path, target: str) -> None:
    held = HeldTool()
    async with stage(server, app_of(works_once("a"), held.tool), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await held.begun()
        generation_id = await open_run(conversation)
        ids = {"conversation": conversation.id, "generation": generation_id, "call": f"{generation_id}/t1.0"}

        await succeeds(server, "workflow", "cancel", "--workflow-id", ids[target])

        settled = await submission.wait()
        assert codes(await conversation.transcript()) == [("call_0_0", "aborted")]
        # A call that is stopped alone is a result like any other, and the run goes on.
        assert is_aborted(settled) if target != "call" else settled.answer_text == "done"
        assert await next_answer(conversation) == "fine"
        assert (await on.client.get_workflow_handle(ids["call"]).result())["code"] == "aborted"


async def test_cancelled_conversation_can_be_cancelled_again(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldModel(ScriptedModel.for_each_input([say("fine")]))
    async with stage(server, app_of(model), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        for _ in range(2):
            submission = await conversation.submit("go on")
            await model.asked.wait()
            model.asked.clear()
            await succeeds(server, "workflow", "cancel", "--workflow-id", conversation.id)
            assert is_aborted(await submission.wait())
        model.go.set()
        assert await next_answer(conversation) == "fine"


async def test_terminated_call_is_one_aborted_result_and_the_run_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    async with stage(server, app_of(works_once("a", "b"), held.tool), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go on")
        await held.begun(2)

        call_id = f"{await open_run(conversation)}/t1.0"
        await succeeds(server, "workflow", "terminate", "--workflow-id", call_id, "--reason", "drill")
        held.go.set()

        assert (await submission.wait()).answer_text == "done"
        assert codes(await conversation.transcript()) == [("call_0_0", "aborted"), ("call_0_1", "")]
        assert await next_answer(conversation) == "fine"


async def test_terminated_run_is_salvaged_and_the_next_input_is_answered(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    async with stage(server, app_of(works_once("a"), held.tool), tmp_path, **QUICK) as on:
        conversation = on.harness.conversation()
        first, second = await conversation.submit("go on"), await conversation.submit("next")
        await held.begun()

        generation_id = await open_run(conversation)
        await succeeds(server, "workflow", "terminate", "--workflow-id", generation_id, "--reason", "drill")

        lost = await first.wait()
        assert (lost.status, lost.reason) == ("unanswered", "lost")
        assert (await second.wait()).answer_text == "fine"
        assert kinds(await conversation.transcript()) == ["user", "assistant", "note", "user", "assistant"]
        await eventually(lambda: is_over(on, f"{generation_id}/t1.0"))
        assert (await on.client.get_workflow_handle(f"{generation_id}/t1.0").result())["code"] == "aborted"


async def test_stop_between_two_runs_survives_the_turn_of_the_workflow(
    lowered_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = app_of(ScriptedModel.for_each_input([say("fine")]))
    async with stage(lowered_server, app, tmp_path, turnover_events=10) as on:
        sealing = HeldMethod(monkeypatch, BlobStore, "put")
        conversation = on.harness.conversation()
        await conversation.submit("long " * (PAGE_BYTES // 4))
        await sealing.reached.wait()
        stopped = await conversation.submit("opened, and not yet started")
        assert stopped.view is not None
        assert stopped.view.status == "placed"

        await conversation.abort()
        sealing.go.set()

        assert is_aborted(await stopped.wait())
        with pytest.raises(RPCError, match="not found"):
            await on.client.get_workflow_handle(stopped.view.generation_id).describe()
        assert await next_answer(conversation) == "fine"
        assert kinds(await conversation.transcript()) == ["user", "assistant", "user", "user", "assistant"]


async def test_stop_that_overtakes_an_input_still_looked_up_withdraws_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app_of(ScriptedModel.for_each_input([say("fine")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await fill_archive(conversation, on)
        late = await conversation.submit("overtaken", request_id="looked-up")
        await conversation.abort()

        async with on.worker():
            assert is_aborted(await late.wait())
            assert await next_answer(conversation) == "fine"
            assert "overtaken" not in str(await conversation.transcript())


async def test_run_that_ends_right_behind_a_sealed_page_leaves_a_conversation_that_goes_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    model = ScriptedModel([call("quick", what="x" * PAGE_BYTES), fail("permanent", "no"), say("fine")])
    async with stage(server, app_of(model, quick), tmp_path) as on:
        submission = await on.harness.conversation().submit("go on")

        assert (await submission.wait()).reason == "model_error"
        assert await next_answer(on.harness.conversation(submission.conversation_id)) == "fine"
