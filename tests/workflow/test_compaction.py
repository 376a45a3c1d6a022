"""Compaction as its users see it: what starts one, what becomes of it, what the model reads afterwards (spec §11)."""

from __future__ import annotations

from pathlib import Path

from tarry.client import Conversation
from tarry.core.messages import UserMessage
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import ScriptedModel, say
from tests.support.stage import app_of, idle_stage, kinds, stage

KEEP_ONE = {"keep_recent_tokens": 1}


def talker(*, asked: list[ModelRequest] | None = None) -> ScriptedModel:
    """Answers each input at some length."""
    return ScriptedModel.for_each_input([say("fine " * 100)], on_request=asked.append if asked is not None else None)


async def talked(conversation: Conversation, *inputs: str) -> None:
    for content in inputs:
        assert (await (await conversation.submit(content)).wait()).status == "done"


async def test_an_idle_conversation_is_compacted_by_hand_and_goes_on_from_the_summary(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked: list[ModelRequest] = []
    async with stage(server, app_of(talker(asked=asked)), tmp_path, **KEEP_ONE) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")

        ended = await (await conversation.compact("the numbers")).wait()
        await talked(conversation, "three")

        assert (ended.status, ended.reason, ended.entry) == ("placed", "manual", 4)
        assert ended.before > ended.after
        entries = await conversation.transcript()
        assert kinds(entries) == ["user", "assistant", "user", "assistant", "compaction", "user", "assistant"]
        [summary] = [request for request in asked if request.purpose == "summary"]
        assert "the numbers" in summary.messages[0].text
        assert (summary.tools, len(summary.messages)) == ((), 1)
        assert asked[-1].messages == tuple(entries[place].message for place in (4, 3, 5))


async def test_compaction_is_admitted_without_a_worker(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app_of(talker()), tmp_path, **KEEP_ONE) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            await talked(conversation, "one", "two")
        compaction = await conversation.compact(request_id="c")
        assert compaction.view is None
        async with on.worker():
            assert (await compaction.wait()).status == "placed"
            assert (await (await conversation.compact(request_id="c")).wait()).entry == 4


async def test_nothing_to_compact_is_said_and_changes_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(talker()), tmp_path) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one")

        ended = await (await conversation.compact()).wait()

        assert ended.status == "nothing"
        assert "20000 tokens" in ended.detail
        assert kinds(await conversation.transcript()) == ["user", "assistant"]
        assert isinstance((await conversation.transcript())[0].message, UserMessage)
