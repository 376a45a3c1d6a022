"""Compaction as its users see it: what starts one, what becomes of it, what the model reads afterwards (spec §11)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.client import Conversation, SubmissionRefused
from tarry.core.compaction_view import CompactionView
from tarry.core.compactions import REMEMBERED
from tarry.core.messages import UserMessage
from tarry.embedded import EmbeddedServer
from tarry.models import ModelRequest
from tarry.testing import fail
from tests.support.compacting import KEEP_LITTLE, refusing, talked, talker
from tests.support.stage import app_of, idle_stage, kinds, stage
from tests.support.waiting import eventually

BY_WINDOW = {**KEEP_LITTLE, "reserve_tokens": 100, "background_tokens": 0}


async def test_an_idle_conversation_is_compacted_by_hand_and_goes_on_from_the_summary(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked: list[ModelRequest] = []
    async with stage(server, app_of(talker(asked=asked)), tmp_path, **KEEP_LITTLE) as on:
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
    async with idle_stage(server, app_of(talker()), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        async with on.worker():
            await talked(conversation, "one", "two")
        compaction = await conversation.compact(request_id="c")
        assert compaction.view is None
        async with on.worker():
            assert (await compaction.wait()).status == "placed"
            assert (await (await conversation.compact(request_id="c")).wait()).entry == 4


async def test_a_compaction_of_the_longest_name_is_placed_and_known_by_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(talker()), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")

        ended = await (await conversation.compact(request_id="c" * 200)).wait()
        await talked(conversation, "three")

        assert (ended.status, ended.entry) == ("placed", 4)
        assert (await (await conversation.compact()).wait()).status == "placed"


async def test_nothing_to_compact_is_said_and_changes_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(talker()), tmp_path) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one")

        ended = await (await conversation.compact()).wait()

        assert ended.status == "nothing"
        assert "20000 tokens" in ended.detail
        assert kinds(await conversation.transcript()) == ["user", "assistant"]
        assert isinstance((await conversation.transcript())[0].message, UserMessage)


async def test_a_context_that_leaves_too_little_of_the_window_is_compacted_before_it_is_sent(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked: list[ModelRequest] = []
    async with stage(server, app_of(talker(window=500, asked=asked)), tmp_path, **BY_WINDOW) as on:
        conversation = on.harness.conversation()
        assert await talked(conversation, *"abcdefg") == [""] * 7
        entries = await conversation.transcript()

    answered = ["user", "assistant"]
    compacted = ["user", "compaction", "assistant"]
    assert kinds(entries) == [*answered * 4, *compacted, *answered * 2]
    assert [request.purpose for request in asked] == ["turn"] * 4 + ["summary"] + ["turn"] * 3
    assert all(sum(len(message.text) for message in request.messages) // 4 <= 400 for request in asked[5:])


async def test_a_context_that_the_provider_refuses_is_compacted_and_sent_once_more(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app_of(refusing(1_100)), tmp_path, **KEEP_LITTLE, provider_retries=0) as on:
        conversation = on.harness.conversation()
        assert await talked(conversation, "one", "two", "three", "four") == [""] * 4
        entries = await conversation.transcript()

    turn = ["user", "assistant"]
    assert kinds(entries) == [*turn * 3, "user", "note", "compaction", "assistant"]
    assert "too long for the model and is compacted" in entries[7].note


async def test_a_context_that_is_refused_again_after_its_compaction_ends_the_run(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    asked: list[ModelRequest] = []
    async with stage(server, app_of(refusing(10, asked=asked)), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        nothing = await (await conversation.submit("long " * 200)).wait()
        again = await (await conversation.submit("long " * 200)).wait()

    assert (nothing.reason, again.reason) == ("model_error", "model_error")
    assert nothing.detail.startswith("the context is too long; the context could not be compacted (nothing: ")
    assert again.detail == "the context is too long"
    assert [request.purpose for request in asked] == ["turn", "turn", "summary", "turn"]


async def test_a_context_that_grows_large_is_compacted_beside_the_run(server: EmbeddedServer, tmp_path: Path) -> None:
    sizes = {**KEEP_LITTLE, "reserve_tokens": 100, "background_tokens": 200}
    async with stage(server, app_of(talker(window=600)), tmp_path, **sizes) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two", "three")  # 380 of 300 tokens
        [ended] = await eventually(lambda: settled(conversation))
        await talked(conversation, "four")
        entries = await conversation.transcript()

    assert (ended.status, ended.reason) == ("placed", "background")
    turn = ["user", "assistant"]
    assert kinds(entries) == [*turn * 3, "compaction", *turn]


async def settled(conversation: Conversation) -> list[CompactionView]:
    return [one for one in (await conversation.view()).compactions if one.is_over]


async def test_a_compaction_that_was_forgotten_is_known_by_its_summary(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app_of(talker()), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")
        placed, empty = await conversation.compact(), await conversation.compact()
        for _ in range(REMEMBERED + 1):
            await (await conversation.compact()).wait()
        remembered = [one.request_id for one in (await conversation.view()).compactions]
        with pytest.raises(SubmissionRefused, match="ended without a summary"):
            await empty.status()
        status = await placed.status()

    assert not {placed.request_id, empty.request_id} & set(remembered)
    assert (status.status, status.entry) == ("placed", 4)


async def test_provider_errors_of_a_summary_are_retried_and_end_by_the_budget(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    failing = talker(summary=[fail("retryable", "overloaded", times=None)])
    async with stage(server, app_of(failing), tmp_path, **KEEP_LITTLE, provider_retries=1) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")
        ended = await (await conversation.compact()).wait()

        assert (ended.status, ended.attempt, ended.detail) == ("failed", 2, "overloaded")
        assert len(await conversation.transcript()) == 4
