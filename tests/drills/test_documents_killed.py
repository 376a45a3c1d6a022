"""A worker dies while its tool commits: the document, the note, the input and the task come together, and once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tarry.testing import Stage
from tests.support import documents_app
from tests.support.documents import PLAN, Plan, committed_task
from tests.support.stage import kinds
from tests.support.waiting import eventually


@pytest.mark.parametrize(
    ("place", "step", "told"),
    [
        ("in the edit", "by run 2", "run 2, taken True"),
        ("after the commit", "by run 1", "run 2, taken False"),
    ],
)
async def test_commit_with_a_document_of_a_worker_that_was_killed_happens_once(
    server: EmbeddedServer, tmp_path: Path, place: str, step: str, told: str
) -> None:
    async with Stage(documents_app.NAME, server=server, folder=tmp_path) as stage:
        first = await stage.start_worker()
        conversation = stage.harness.conversation()
        submission = await conversation.submit(place)
        await first.wait()
        await stage.start_worker()
        await submission.wait()
        entries = await eventually(conversation.transcript, lambda found: len(kinds(found)) == 7)
        task = await committed_task(stage.harness, conversation, "echo")

        assert await conversation.document(PLAN).get() == Plan(steps=[step])
        assert [entry.message.text for entry in entries if entry.message and entry.kind == "tool_result"] == [told]
        assert sorted(kinds(entries)) == sorted(["user", "assistant"] * 2 + ["tool_result", "assistant", "note"])
        assert task.arguments == {"input": "hi"}
