"""Raw entries that are written into a conversation, idle or busy, and resets (spec §6.6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry import App, Extension, RequestConflict
from tarry.client import Conversation
from tarry.core.conversation import ConversationInput, ConversationState
from tarry.core.inbox import RECENT, Record, pack
from tarry.core.protocol import CONVERSATION, SUBMISSION, SubmissionLookup, digest
from tarry.core.transcript import PAGE_BYTES
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tests.support.answers import answer_to, ask
from tests.support.held import HeldTool
from tests.support.stage import Stage, idle_stage, kinds, stage
from tests.support.waiting import eventually


def told(request: ModelRequest) -> Reply:
    """Say what users said so far."""
    return say(" | ".join(message.text for message in request.messages if message.role == "user"))


def work_then_tell(request: ModelRequest) -> Reply:
    return calls(call("work", what="a")) if request.messages[-1].text == "go" else told(request)


def held_app(held: HeldTool) -> App:
    return App(model=ScriptedModel([work_then_tell] * 9), extensions=[Extension("test", [held.tool])])


async def test_a_write_to_an_idle_conversation_is_placed_at_once_and_starts_no_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, App(model=ScriptedModel.for_each_input([told])), tmp_path) as on:
        conversation = on.harness.conversation()
        note = await conversation.write("it rains", request_id="w")
        fact = await conversation.write("the build is green", kind="user")
        again = await conversation.write("it rains", request_id="w")
        with pytest.raises(RequestConflict):
            await conversation.submit("it rains", request_id="w")
        answer = await ask(conversation, "and now?")

        assert note.view is not None
        assert (note.view.status, note.view.entry, again.view) == ("done", 0, note.view)
        assert fact.view is not None
        assert (fact.view.status, fact.view.entry) == ("done", 1)
    assert answer.kinds == ["note", "user", "user", "assistant"]
    assert answer.text == "the build is green | and now?"


async def test_writes_to_a_busy_conversation_stand_behind_the_round_ahead_of_a_steer(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    async with stage(server, held_app(held), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await held.begun()
        steer = await conversation.submit("hurry", when_busy="steer")
        note = await conversation.write("it rains")
        fact = await conversation.write("the build is green", kind="user")
        held.go.set()
        answer = await answer_to(conversation, first)
        ends = [await submission.wait() for submission in (steer, note, fact)]

    assert answer.kinds == ["user", "assistant", "tool_result", "note", "user", "user", "assistant"]
    assert answer.text == "go | the build is green | hurry"
    texts = [entry.note or (entry.message.text if entry.message else "") for entry in answer.entries]
    assert [texts[end.entry or 0] for end in ends] == ["hurry", "it rains", "the build is green"]


async def test_a_reset_after_tools_ends_the_run_and_what_waits_is_answered_behind_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    async with stage(server, held_app(held), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await held.begun()
        steer = await conversation.submit("hurry", when_busy="steer")
        reset = await conversation.reset("All is done but the roof.")
        held.go.set()
        ended = await first.wait()
        answer = await answer_to(conversation, steer)

        assert (ended.status, ended.reason) == ("unanswered", "reset")
        assert answer.entries[(await reset.wait()).entry or 0].kind == "reset"
    assert answer.kinds[:5] == ["user", "assistant", "tool_result", "reset", "user"]
    assert answer.text == "All is done but the roof. | hurry"


async def test_a_reset_during_the_last_request_leaves_the_answer_and_what_comes_later_begins_anew(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, App(model=ScriptedModel.for_each_input([told])), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await ask(conversation, "one")
        await conversation.reset()
        second = await ask(conversation, "two")

    assert (first.text, second.text) == ("one", "two")
    assert second.kinds == ["user", "assistant", "reset", "user", "assistant"]


async def test_a_stop_leaves_queued_writes_and_they_are_placed(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    async with stage(server, held_app(held), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("go")
        await held.begun()
        later = await conversation.submit("later")
        note = await conversation.write("it rains")
        await conversation.abort()
        ends = [await submission.wait() for submission in (first, later, note)]
        entries = await conversation.transcript()

    assert [(end.status, end.reason) for end in ends] == [
        ("unanswered", "aborted"),
        ("unanswered", "aborted"),
        ("done", ""),
    ]
    assert kinds(entries) == ["user", "assistant", "tool_result", "note"]


async def test_a_write_with_no_worker_up_waits_for_one(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, App(model=ScriptedModel.for_each_input([told])), tmp_path) as on:
        conversation = on.harness.conversation()
        note = await conversation.write("it rains")
        async with on.worker():
            settled = await note.wait()

    assert (settled.status, settled.entry) == ("done", 0)


async def test_a_conversation_that_is_only_written_to_keeps_little_and_forgets_nothing(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """It begins with as many settled records as it keeps by itself."""
    state = ConversationState.born("0123456789ab")
    old = [Record(request_id=f"old{n}", content=digest("x"), status="unanswered", run=n) for n in range(RECENT - 1)]
    state.inbox.settled = {digest(record.request_id): pack(record) for record in old}
    async with stage(server, App(model=ScriptedModel.for_each_input([told])), tmp_path) as on:
        conversation = on.harness.conversation()
        input = ConversationInput(nonce=state.nonce, carry=state, notes_ends=True, by_boundary=True)
        queue = on.settings.task_queue
        await on.client.start_workflow(CONVERSATION, input, id=conversation.id, task_queue=queue)
        for number in range(3):
            await conversation.write("x" * (PAGE_BYTES // 2), request_id=f"w{number}")
        view = await eventually(conversation.view, lambda view: bool(view.pages))
        oldest = await eventually(lambda: looked_up(on, conversation, "old0"), lambda found: found.submission is None)
        statuses = [(await conversation.submission(name).status()).status for name in ("old0", "w0", "w2")]

    assert [page.last.index for page in view.pages] == [2]
    assert len(oldest.archive) == 1
    assert statuses == ["unanswered", "done", "done"]


async def looked_up(on: Stage, conversation: Conversation, request_id: str) -> SubmissionLookup:
    handle = on.client.get_workflow_handle(conversation.id)
    found: SubmissionLookup = await handle.query(SUBMISSION, request_id, result_type=SubmissionLookup)
    return found
