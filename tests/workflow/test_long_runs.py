"""One run of many rounds: what it carries, and what the conversation carries of it, stays small (spec §8.2)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry import App, Extension
from tarry.core import folding, transcript
from tarry.core.protocol import VIEW
from tarry.core.views import GenerationView
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, calls, say
from tarry.tools import tool
from tests.support.stage import kinds, stage

ROUNDS = 9


@tool
def recite(place: int) -> str:
    """Say something long."""
    return f"{place} " * 300


async def test_a_long_run_folds_its_pages_and_the_conversation_those_of_all_its_runs(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transcript, "PAGE_BYTES", 600)
    monkeypatch.setattr(folding, "FAN", 2)
    rounds = [calls(call("recite", place=place)) for place in range(ROUNDS)]
    model = ScriptedModel([*rounds, say("one"), *rounds, say("two"), say("three")])
    async with stage(
        server, App(model=model, extensions=[Extension("x", [recite])]), tmp_path, turnover_events=40
    ) as on:
        conversation = on.harness.conversation()
        ends = [await (await conversation.submit("go")).wait() for _ in range(3)]
        runs = [on.client.get_workflow_handle(end.generation_id) for end in ends[:2]]
        views = [await run.query(VIEW, result_type=GenerationView) for run in runs]
        pages = (await conversation.view()).pages
        entries = await conversation.transcript()

    assert [end.answer_text for end in ends] == ["one", "two", "three"]
    for view in views:
        assert max(page.level for page in view.pages) >= 1
        assert len(view.pages) < ROUNDS
    levels = [page.level for page in pages]
    assert levels == sorted(levels, reverse=True)
    assert len(pages) < 4 * len(set(levels))
    answered = ["user", *["assistant", "tool_result"] * ROUNDS, "assistant"]
    assert kinds(entries) == [*answered, *answered, "user", "assistant"]
