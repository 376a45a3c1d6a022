"""Compaction while something else happens: runs, inputs, a Stop, hooks (spec §11.3)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tarry import App, Extension, Hooks
from tarry.core.messages import ToolMessage, UserMessage
from tarry.embedded import EmbeddedServer
from tarry.hooks import BeforeCompact, Compacting, Decline, OwnSummary
from tarry.models import ModelInfo, ModelRequest
from tarry.testing import Reply, ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.compacting import ANSWER, KEEP_LITTLE, HeldSummaries, statuses, talked, talker
from tests.support.held import HeldModel, HeldTool
from tests.support.stage import app_of, kinds, stage
from tests.support.waiting import eventually

TURN = ["user", "assistant"]


@tool
def look() -> str:
    """Look around."""
    return "seen"


async def test_a_run_goes_on_while_its_context_is_compacted_and_reads_the_summary_after_its_round(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    asked: list[ModelRequest] = []

    def decide(request: ModelRequest) -> Reply:
        results = [message.text for message in request.messages if isinstance(message, ToolMessage)]
        if "did hold" in results:
            return say("done")
        return calls(call("look") if len(results) < 3 else call("work", what="hold"), text=ANSWER)

    model = ScriptedModel([decide] * 9, on_request=asked.append, info=ModelInfo(context_window=700))
    sizes = {**KEEP_LITTLE, "reserve_tokens": 100, "background_tokens": 250}
    async with stage(server, app_of(model, look, held.tool), tmp_path, **sizes) as on:
        conversation = on.harness.conversation()
        submission = await conversation.submit("go")
        await held.begun()
        await eventually(lambda: statuses(conversation), lambda found: found == ["waiting"])
        held.go.set()
        assert (await submission.wait()).answer_text == "done"
        entries = await conversation.transcript()
        [view] = (await conversation.view()).compactions

    round = ["assistant", "tool_result"]
    assert kinds(entries) == ["user", *round * 4, "compaction", "assistant"]
    assert (view.status, view.reason) == ("placed", "background")
    assert [request.purpose for request in asked].count("summary") == 1
    assert isinstance(asked[-1].messages[0], UserMessage)
    assert "<summary>" in asked[-1].messages[0].text


async def test_a_compaction_by_hand_makes_no_conversation_busy_and_is_placed_after_the_round(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()
    script = [lambda request: calls(call("work", what="w")) if request.messages[-1].text == "work" else say(ANSWER)]
    model = ScriptedModel.for_each_input([*script, say("done")])
    async with stage(server, app_of(model, held.tool), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")
        submission = await conversation.submit("work")
        await held.begun()

        compaction = await conversation.compact()
        await eventually(lambda: statuses(conversation), lambda found: found == ["waiting"])
        held.go.set()
        await submission.wait()

        assert (await compaction.wait()).status == "placed"
        found = kinds(await conversation.transcript())
        assert found == [*TURN * 2, "user", "assistant", "tool_result", "compaction", "assistant"]


async def test_a_stop_ends_the_compaction_and_leaves_the_context_as_it_was(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    model = HeldSummaries(talker())
    async with stage(server, app_of(model), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")
        first, second = await conversation.compact(), await conversation.compact()
        await model.asked.wait()

        await conversation.abort()

        assert [(await one.wait()).status for one in (first, second)] == ["aborted", "aborted"]
        assert model.cancelled.is_set()
        assert kinds(await conversation.transcript()) == TURN * 2
        model.go.set()
        assert (await (await conversation.compact()).wait()).status == "placed"


async def test_a_summary_that_a_stop_ends_stands_in_the_ledger(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldSummaries(talker())
    async with stage(server, app_of(model), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")
        before = (await conversation.usage()).total.reports
        compaction = await conversation.compact()
        await model.asked.wait()

        await conversation.abort()
        await compaction.wait()

        assert (await conversation.usage()).total.reports == before + 1


async def test_a_stop_together_with_a_large_answer_begins_no_compaction(server: EmbeddedServer, tmp_path: Path) -> None:
    asked: list[ModelRequest] = []
    model = HeldModel(talker(window=600, asked=asked), deaf=True)
    sizes = {**KEEP_LITTLE, "reserve_tokens": 100, "background_tokens": 400}
    async with stage(server, app_of(model), tmp_path, **sizes) as on:
        conversation = on.harness.conversation()
        model.go.set()
        await talked(conversation, "one")
        model.go.clear()
        model.asked.clear()
        submission = await conversation.submit("two")
        await model.asked.wait()
        await conversation.abort()
        await model.cancelled.wait()
        model.go.set()
        end = await submission.wait()
        view = await conversation.view()

    assert end.status == "done"
    assert (view.compactions, [request.purpose for request in asked]) == ((), ["turn", "turn"])


async def test_a_stop_of_a_run_that_waits_for_its_compaction_ends_both(server: EmbeddedServer, tmp_path: Path) -> None:
    model = HeldSummaries(talker(window=300))
    sizes = {**KEEP_LITTLE, "reserve_tokens": 100, "background_tokens": 0}
    async with stage(server, app_of(model), tmp_path, **sizes) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")
        submission = await conversation.submit("three")
        await model.asked.wait()

        await conversation.abort()

        assert (await submission.wait()).reason == "aborted"
        assert kinds(await conversation.transcript()) == [*TURN * 2, "user"]


async def test_inputs_that_come_while_calls_wait_and_compaction_runs_are_each_answered_once_in_order(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    held = HeldTool()

    def decide(request: ModelRequest) -> Reply:
        return calls(call("work", what="a")) if request.messages[-1].text == "A" else say(ANSWER)

    model = HeldSummaries(ScriptedModel.for_each_input([decide, say("done")]))
    async with stage(server, app_of(model, held.tool), tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")
        first = await conversation.submit("A")
        second, third = await asyncio.gather(conversation.submit("B"), conversation.submit("C", when_busy="steer"))
        await held.begun()
        compaction = await conversation.compact()
        await model.asked.wait()
        last = await conversation.submit("D")
        held.go.set()
        model.go.set()

        ends = [(await one.wait()).status for one in (first, second, third, last)]
        assert (await compaction.wait()).status == "placed"
        entries = await conversation.transcript()

    said = [entry.message.text for entry in entries if entry.kind == "user" and entry.message is not None]
    assert ends == ["done"] * 4
    assert sorted(said) == sorted(["one", "two", "A", "B", "C", "D"])
    assert [text for text in said if text in "ABD"] == ["A", "B", "D"]
    assert "compaction" in kinds(entries)


def decline(told: Compacting) -> Decline:
    return Decline("not now")


async def own(told: Compacting) -> OwnSummary:
    return OwnSummary(f"{told.reason} of {len(told.text)} characters")


def fall(told: Compacting) -> None:
    raise RuntimeError("fell")


FELL = "hook before_compact of e0 failed with RuntimeError: fell"


def app_with(*hooks: Hooks) -> App:
    return App(model=talker(), extensions=[Extension(f"e{number}", hooks=hook) for number, hook in enumerate(hooks)])


@pytest.mark.parametrize(
    ("hooks", "status", "detail", "last"),
    [
        ([decline, own], "declined", "not now", TURN),
        ([own, decline], "placed", "", ["assistant", "compaction"]),
        ([fall, own], "placed", "", ["note", "compaction"]),
        ([fall], "placed", "", ["note", "compaction"]),
    ],
    ids=["declined", "own summary", "one that fails is noted", "and the model goes on"],
)
async def test_the_first_hook_that_says_something_wins(
    server: EmbeddedServer, tmp_path: Path, hooks: list[BeforeCompact], status: str, detail: str, last: list[str]
) -> None:
    app = app_with(*(Hooks(before_compact=hook) for hook in hooks))
    async with stage(server, app, tmp_path, **KEEP_LITTLE) as on:
        conversation = on.harness.conversation()
        await talked(conversation, "one", "two")

        ended = await (await conversation.compact()).wait()

        entries = await conversation.transcript()
        assert (ended.status, ended.detail) == (status, detail)
        assert kinds(entries)[-2:] == last
        notes = [entry.note for entry in entries if entry.kind == "note"]
        assert notes == (["hook before_compact of e0 failed with RuntimeError: fell"] if fall in hooks else [])
        if own in hooks and status == "placed":
            assert entries[-1].message is not None
            assert "manual of" in entries[-1].message.text
