"""An input that is still looked up in the archive when a Stop comes belongs to what that Stop found, and no other does
that came since (spec §7.4)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tarry.embedded import EmbeddedServer
from tarry.entries import EntryReader
from tarry.testing import ScriptedModel, call, say
from tests.support.archives import fill_archive
from tests.support.held import HeldMethod, HeldTool
from tests.support.stage import app_of, idle_stage
from tests.support.waiting import eventually
from tests.workflow.test_steers import users


async def test_what_a_commit_brings_after_a_stop_is_answered_though_an_earlier_input_is_still_looked_up(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given an input whose id is looked up slowly, and a Stop, when a commit begins a run, and another one brings an
    input behind it, then the first input ends as aborted, and the other one is answered."""
    work = HeldTool()
    work.go.set()
    model = ScriptedModel.for_each_input([call("work", what="a"), say("fine")])
    async with idle_stage(server, app_of(model, work.tool), tmp_path) as on:
        conversation = on.harness.conversation()
        await fill_archive(conversation, on)
        work.go.clear()
        looking = HeldMethod(monkeypatch, EntryReader, "archived")
        async with on.worker():
            late = asyncio.create_task(conversation.submit("overtaken", request_id="looked-up"))
            await looking.reached.wait()
            await conversation.abort()
            await conversation.commit(inputs=["first"])
            await work.begun(2)
            await conversation.commit(inputs=["second"])

            looking.go.set()
            overtaken = await (await late).wait()
            work.go.set()

            await eventually(conversation.view, lambda view: not (view.open_generation or view.queued))
            assert overtaken.reason == "aborted"
            assert users(await conversation.transcript())[-2:] == ["first", "second"]
