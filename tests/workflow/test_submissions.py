"""Submissions on a real server: order, repeats, refusals, and inputs that no worker waits for (spec §7.1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus, WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from tarry.app import App
from tarry.client import (
    Conversation,
    ConversationBusy,
    InboxFull,
    InputTooLarge,
    RequestConflict,
    Submission,
    SubmissionRefused,
)
from tarry.core.commits import COMMIT, CommitInput
from tarry.core.inbox import MAX_BYTES, MAX_CONTENT
from tarry.core.keeping import FIND_SUBMISSION
from tarry.core.messages import UserMessage
from tarry.core.protocol import CONFLICT, SUBMIT, SubmissionView, SubmitInput
from tarry.core.views import Refusal
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, say
from tests.support.archives import fill_archive
from tests.support.held import HeldModel, HeldTool
from tests.support.shell import succeeds
from tests.support.stage import Stage, app_of, idle_stage, kinds, stage
from tests.support.waiting import eventually


def echo(request: ModelRequest) -> Reply:
    """Answer the newest input by its own text."""
    return say(f"{request.messages[-1].text}!")


ECHO = app_of(ScriptedModel.for_each_input([echo]))


def held_echo() -> tuple[App, HeldModel]:
    """An application whose model answers when it is let go."""
    model = HeldModel(ScriptedModel.for_each_input([echo]))
    return app_of(model), model


async def texts(conversation: Conversation) -> list[str]:
    """The text of every message, oldest first."""
    return [entry.message.text for entry in await conversation.transcript() if entry.message is not None]


async def is_closed(on: Stage, workflow_id: str) -> bool:
    return (await on.client.get_workflow_handle(workflow_id).describe()).status != WorkflowExecutionStatus.RUNNING


async def runs_of(on: Stage, conversation: Conversation) -> int:
    """How often the conversation's own workflow was started, its turns included."""
    query = f'WorkflowId = "{conversation.id}"'
    return (await on.client.count_workflows(query)).count


async def test_sixty_inputs_are_answered_once_and_in_order_while_the_workflow_turns_over(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(lowered_server, ECHO, tmp_path, turnover_events=20) as on:
        conversation = on.harness.conversation()
        sent: list[Submission] = []
        for burst in range(12):
            sent = [await conversation.submit(f"input {burst * 5 + place}") for place in range(5)]
            await sent[0].wait()

        assert (await sent[-1].wait()).answer_text == "input 59!"
        assert await texts(conversation) == [text for n in range(60) for text in (f"input {n}", f"input {n}!")]
        assert await runs_of(on, conversation) > 20


async def test_inputs_that_arrive_together_and_during_a_tool_take_turns(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([lambda request: call("work", what=request.messages[-1].text), say("done")])
    async with stage(server, app_of(model, held.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        first, second = await asyncio.gather(conversation.submit("A"), conversation.submit("B"))
        await held.begun()
        third = await conversation.submit("C")
        assert [s.view.status for s in (first, second, third) if s.view].count("placed") == 1
        assert (await conversation.view()).runs == 1
        held.go.set()
        await third.wait()

        entries = await conversation.transcript()
        assert kinds(entries) == ["user", "assistant", "tool_result", "assistant"] * 3
        assert [entry.run for entry in entries if entry.kind != "system"] == [
            run for run in (1, 2, 3) for _ in range(4)
        ]
        said = [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]
        assert (sorted(said[:2]), said[2]) == (["A", "B"], "C")
        assert held.ledger == said


async def test_repeat_of_a_request_is_the_first_submission_at_every_later_time(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    app, model = held_echo()
    async with idle_stage(lowered_server, app, tmp_path, turnover_events=10) as on:
        conversation = on.harness.conversation()

        async def again() -> SubmissionView:
            return await (await conversation.submit("x", request_id="r1")).wait()

        async with on.worker():
            first = await conversation.submit("x", request_id="r1")
            assert first.view is not None
            repeated = await conversation.submit("x", request_id="r1")
            assert repeated.view == first.view
            model.go.set()
            settled = await first.wait()
            assert (settled.status, settled.answer_text) == ("done", "x!")
            assert await again() == settled
            await (await conversation.submit("other")).wait()
            assert await runs_of(on, conversation) > 1
            assert await again() == settled
        async with on.worker():
            assert await again() == settled
            assert await texts(conversation) == ["x", "x!", "other", "other!"]


async def test_request_with_other_content_is_a_conflict_and_runs_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, ECHO, tmp_path) as on:
        conversation = on.harness.conversation()
        await (await conversation.submit("x", request_id="r1")).wait()

        with pytest.raises(RequestConflict, match="'r1' was used for other content"):
            await conversation.submit("y", request_id="r1")

        assert await texts(conversation) == ["x", "x!"]
        assert (await conversation.submission("r1").wait()).answer_text == "x!"


async def test_conflict_that_no_worker_could_tell_is_told_to_who_waits(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, ECHO, tmp_path) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            await (await conversation.submit("x", request_id="r1")).wait()
        conflicting = await conversation.submit("y", request_id="r1")
        assert conflicting.view is None
        async with on.worker():
            with pytest.raises(RequestConflict, match="'r1' was used for other content"):
                await conflicting.wait()

            assert (await conversation.view()).refusals == (
                Refusal(request_id="r1", reason="tarry.submit: request id 'r1' was used for other content"),
            )
            assert await texts(conversation) == ["x", "x!"]


async def test_input_submitted_with_no_worker_is_answered_when_one_comes(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, ECHO, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("early", request_id="r1")
        again = await conversation.submit("early", request_id="r1")
        assert (first.view, again.view) == (None, None)
        waiting = asyncio.gather(first.wait(), again.wait())

        async with on.worker():
            settled, same = await waiting
            assert (settled.answer_text, settled) == ("early!", same)
            assert await texts(conversation) == ["early", "early!"]


async def test_waiting_outlives_the_workers(server: EmbeddedServer, tmp_path: Path) -> None:
    app, model = held_echo()
    async with idle_stage(server, app, tmp_path, shutdown_grace=0.0) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            waiting = asyncio.ensure_future((await conversation.submit("x")).wait())
            await model.asked.wait()
        model.go.set()

        async with on.worker():
            assert (await waiting).answer_text == "x!"


async def test_busy_conversation_refuses_who_asked_for_that(server: EmbeddedServer, tmp_path: Path) -> None:
    app, model = held_echo()
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("a", request_id="r1", when_busy="reject")

        with pytest.raises(ConversationBusy):
            await conversation.submit("b", when_busy="reject")
        repeated = await conversation.submit("a", request_id="r1", when_busy="reject")

        assert repeated.view == first.view
        model.go.set()
        assert (await first.wait()).status == "done"
        assert (await (await conversation.submit("b", when_busy="reject")).wait()).answer_text == "b!"


async def test_input_refused_after_the_server_took_it_says_so_to_who_waits(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app, model = held_echo()
    async with idle_stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("a")
        refused = await conversation.submit("b", when_busy="reject")
        async with on.worker():
            with pytest.raises(SubmissionRefused, match="the conversation is busy"):
                await refused.wait()
            model.go.set()
            assert (await first.wait()).status == "done"


async def test_full_inbox_refuses_and_serves_again_when_there_is_room(server: EmbeddedServer, tmp_path: Path) -> None:
    app, model = held_echo()
    async with stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        await conversation.submit("first")
        queued = [await conversation.submit(str(n) * (MAX_BYTES // 3)) for n in range(3)]

        with pytest.raises(InboxFull, match=f"{MAX_BYTES} are allowed"):
            await conversation.submit("over")

        model.go.set()
        assert [(await one.wait()).status for one in queued] == ["done"] * 3
        assert (await (await conversation.submit("later")).wait()).answer_text == "later!"


async def test_oversized_input_is_refused_before_it_is_sent(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, ECHO, tmp_path) as on:
        conversation = on.harness.conversation()

        with pytest.raises(InputTooLarge, match=f"{MAX_CONTENT} are allowed"):
            await conversation.submit("é" * (MAX_CONTENT // 2 + 1))

        assert await runs_of(on, conversation) == 0


async def test_archived_request_is_known_for_ever(server: EmbeddedServer, tmp_path: Path) -> None:
    app, model = held_echo()
    model.go.set()
    async with idle_stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        await fill_archive(conversation, on)
        async with on.worker():
            settled = await conversation.submission("r0").wait()
            assert (settled.status, settled.answer_text) == ("done", "x!")
            before = await texts(conversation)

            again = await (await conversation.submit("x", request_id="r0")).wait()
            withdrawn = await (await conversation.submit("withdrawn 0", request_id="w0")).wait()
            with pytest.raises(RequestConflict):
                await conversation.submit("y", request_id="r0")
            model.go.clear()
            open_one = await conversation.submit("open")
            while_busy = await conversation.submit("x", request_id="r0", when_busy="reject")

            assert (again.status, again.answer, again.answer_text) == ("done", settled.answer, "x!")
            assert (withdrawn.status, withdrawn.reason) == ("unanswered", "aborted")
            assert while_busy.view is not None
            assert while_busy.view.status == "done"
            model.go.set()
            await open_one.wait()
            assert await texts(conversation) == [*before, "open", "open!"]
        conflicting = await conversation.submit("y", request_id="r0")
        async with on.worker():
            with pytest.raises(RequestConflict):
                await conflicting.wait()


async def test_an_archived_request_that_a_commit_brings_again_is_not_answered_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    app, model = held_echo()
    model.go.set()
    async with idle_stage(server, app, tmp_path) as on:
        conversation = on.harness.conversation()
        await fill_archive(conversation, on)
        handle = on.client.get_workflow_handle(conversation.id)
        async with on.worker():
            before = await texts(conversation)
            again, new = SubmitInput(content="x", request_id="r0"), SubmitInput(content="n", request_id="n0")
            await handle.execute_update(COMMIT, CommitInput(key="k", inputs=(again, new)))
            await conversation.submission("n0").wait()
            other = SubmitInput(content="other", request_id="r0")
            conflicting = CommitInput(key="l", notes=("lost",), inputs=(other,))
            with pytest.raises(WorkflowUpdateFailedError) as refused:
                await handle.execute_update(COMMIT, conflicting)
            after = await texts(conversation)

    assert after == [*before, "n", "n!"]
    assert isinstance(refused.value.cause, ApplicationError)
    assert refused.value.cause.type == CONFLICT


async def test_nobody_looks_for_a_request_id_that_was_drawn_for_its_input(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, ECHO, tmp_path) as on:
        conversation = on.harness.conversation()
        await fill_archive(conversation, on)
        async with on.worker():
            await (await conversation.submit("drawn")).wait()
            assert await look_ups(on, conversation) == 0
            await (await conversation.submit("named", request_id="new")).wait()
            assert await look_ups(on, conversation) == 1


async def look_ups(on: Stage, conversation: Conversation) -> int:
    history = await on.client.get_workflow_handle(conversation.id).fetch_history()
    scheduled = [event.activity_task_scheduled_event_attributes.activity_type.name for event in history.events]
    return scheduled.count(FIND_SUBMISSION)


async def test_inputs_whose_ids_are_looked_up_keep_their_order_and_are_taken_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, ECHO, tmp_path) as on:
        conversation = on.harness.conversation()
        await fill_archive(conversation, on)
        handle = on.client.get_workflow_handle(conversation.id)
        for content in ("a", "b", "a", "c", "d"):
            await handle.signal(SUBMIT, SubmitInput(content=content, request_id=content))

        async with on.worker():
            assert (await conversation.submission("d").wait()).answer_text == "d!"
            said = await texts(conversation)
        assert said[-8:] == ["a", "a!", "b", "b!", "c", "c!", "d", "d!"]


async def test_conversation_under_the_id_of_a_terminated_one_shares_no_id_with_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    model = ScriptedModel.for_each_input([lambda request: call("work", what=request.messages[-1].text), say("done")])
    async with stage(server, app_of(model, held.tool), tmp_path, heartbeat_timeout=4.0) as on:
        first = on.harness.conversation()
        await first.submit("old", request_id="r1")
        await held.begun()
        old_run = (await first.view()).open_generation
        await succeeds(server, "workflow", "terminate", "--workflow-id", first.id, "--reason", "drill")

        second = on.harness.conversation(first.id)
        submission = await second.submit("new", request_id="r1")
        await held.begun(2)
        new_run = (await second.view()).open_generation

        assert old_run is not None
        assert new_run is not None
        assert (old_run.split("~")[0], old_run) != (new_run.split("~")[0], new_run)
        late = on.client.get_workflow_handle(f"{old_run}/t1.0")
        await eventually(lambda: is_closed(on, late.id))
        with pytest.raises(RPCError, match="already completed"):
            await late.signal("tarry.retry")
        held.go.set()
        assert (await submission.wait()).answer_text == "done"
        assert await texts(second) == ["new", "", "did new", "done"]
