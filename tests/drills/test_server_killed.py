"""The server is killed and started again on its file: what was admitted is answered, what ran is not repeated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.service import RetryConfig

from tarry.client import Submission
from tarry.core.protocol import SubmissionView
from tarry.embedded import EmbeddedServer, ServerOptions
from tarry.settings import Settings
from tests.support.drills import ONCE_EACH, ROUND, Aftermath, Drill, settled
from tests.support.histories import Account
from tests.support.waiting import eventually

SOON = 10.0
"""Seconds: an answer without a worker takes 1.5."""


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A server of the test's own, with its state in a file."""
    async with EmbeddedServer(ServerOptions(database=tmp_path / "temporal.db")) as running:
        yield running


async def test_input_without_any_worker_is_accepted_and_outlives_a_killed_server(
    mortal: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    async with Drill(mortal, tmp_path / "drill", tracker_url) as on:
        conversation = on.harness.conversation()
        began = time.monotonic()
        first = await conversation.submit("say I was asked", request_id="order-1")
        assert time.monotonic() - began < SOON
        assert first.view is None, "only the server knows of it"

        await mortal.kill()
        await mortal.start()

        again = await conversation.submit("say I was asked", request_id="order-1")
        await on.worker()
        late = await conversation.submit("say I was asked", request_id="order-1")
        assert await settled(first) == await settled(again) == await settled(late)
        assert len(on.requests(conversation.id)) == 1
        assert await on.aftermath(first) == Aftermath(
            end="done",
            kinds=["user", "assistant"],
            results=[],
            runs=[],
            tickets=[],
            account=Account(models=("completed 1",)),
        )


async def test_server_killed_under_a_live_worker_costs_neither_tool_nor_response(
    mortal: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    patient = Settings.model_fields["heartbeat_timeout"].default
    async with Drill(mortal, tmp_path / "drill", tracker_url, heartbeat_timeout=patient) as on:
        await on.worker()
        tool = await on.submit("unsafe", stop_at=["after the effect"])
        stream = await on.submit("say half one, half two", stop_at=["mid-stream"])
        arrivals = [await on.reached(tool), await on.reached(stream)]
        # The SDK gives up on a server after ten seconds; this client does so at once.
        impatient = await on.connect(retry_config=RetryConfig(max_retries=1, max_elapsed_time_millis=1))
        watched = impatient.conversation(stream.conversation_id).submission(stream.request_id)
        waiting = [asyncio.create_task(settled(submission)) for submission in (tool, stream, watched)]
        await eventually(lambda: _view(watched), lambda view: view is not None)

        await mortal.kill()
        for arrival in arrivals:
            arrival.let_go()
        await mortal.start()

        assert [end.status for end in await asyncio.gather(*waiting)] == ["done"] * 3
        ran, streamed = await on.aftermath(tool), await on.aftermath(stream)
        (ticket,) = ran.tickets
        assert ran == Aftermath(
            end="done",
            kinds=ROUND,
            results=[f"Opened {ticket}"],
            runs=[1],
            tickets=[ticket],
            account=Account(models=ONCE_EACH, tools=("completed 1",)),
        )
        assert streamed == Aftermath(
            end="done",
            kinds=["user", "assistant"],
            results=[],
            runs=[],
            tickets=[],
            account=Account(models=("completed 1",)),
        )
        assert len(on.requests(stream.conversation_id)) == 1


async def _view(submission: Submission) -> SubmissionView | None:
    return submission.view
