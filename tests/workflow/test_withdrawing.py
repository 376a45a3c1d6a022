"""Taking back a submission: what is still queued, and why not (spec §7.1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry import App, Extension, NoSuchConversation
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tests.support.answers import ask
from tests.support.held import HeldTool
from tests.support.stage import idle_stage, kinds, stage


def held_app(held: HeldTool) -> App:
    model = ScriptedModel.for_each_input([calls(call("work", what="a")), say("done")])
    return App(model=model, extensions=[Extension("test", [held.tool])])


async def test_only_what_is_still_queued_can_be_taken_back(server: EmbeddedServer, tmp_path: Path) -> None:
    held = HeldTool()
    async with stage(server, held_app(held), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first", request_id="first")
        await held.begun()
        later = await conversation.submit("later", request_id="later")
        note = await conversation.write("it rains", request_id="note")
        found = [await conversation.withdraw(name) for name in ("first", "later", "note", "later", "nobody")]
        held.go.set()
        ends = [await submission.wait() for submission in (first, later, note)]
        found += [await submission.abort() for submission in (first, later)]
        entries = await conversation.transcript()

    assert found == ["already_placed", "withdrawn", "withdrawn", "settled", "not_found", "settled", "settled"]
    assert [(end.status, end.reason) for end in ends] == [
        ("done", ""),
        ("unanswered", "aborted"),
        ("unanswered", "aborted"),
    ]
    assert kinds(entries) == ["user", "assistant", "tool_result", "assistant"]


async def test_with_no_worker_up_the_wish_waits_behind_what_came_before_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    held.go.set()
    async with idle_stage(server, held_app(held), tmp_path) as on:
        conversation = on.harness.conversation()
        first = await conversation.submit("first")
        later = await conversation.submit("later")
        assert await later.abort() == "accepted"
        async with on.worker():
            ends = [await submission.wait() for submission in (first, later)]
            answer = await ask(conversation, "and now?")

    assert [(end.status, end.reason) for end in ends] == [("done", ""), ("unanswered", "aborted")]
    assert answer.end == "done"


async def test_a_conversation_that_is_not_there_is_named(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, held_app(HeldTool()), tmp_path) as on:
        with pytest.raises(NoSuchConversation, match="no conversation nowhere"):
            await on.harness.conversation("nowhere").withdraw("r")
