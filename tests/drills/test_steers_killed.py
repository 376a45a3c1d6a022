"""Workers are killed around the boundaries at which steers are placed: none is lost, none stands twice (spec §6.2)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarry.client import Submission
from tarry.core.messages import UserMessage
from tarry.drills.kit.points import Arrival
from tarry.embedded import EmbeddedServer
from tests.support.drills import settled
from tests.support.gated_drills import GatedDrill
from tests.support.histories import account

RUNS = 6


class SteeredDrill(GatedDrill):
    """A drill without gates: each input has one round of one tool."""

    app = "tests.support.gated_app:ungated"

    async def steered(self, stop_at: list[str]) -> tuple[Arrival, list[Submission]]:
        """A run at a stop, and two steers that came meanwhile."""
        first = await self.submit("safe", stop_at=stop_at)
        arrival = await self.reached(first)
        conversation = self.harness.conversation(first.conversation_id)
        return arrival, [first, *[await conversation.submit(text, when_busy="steer") for text in ("safe", "unsafe")]]

    async def users(self, submissions: list[Submission]) -> list[str]:
        """The inputs as the transcript has them, when all are settled."""
        for submission in submissions:
            assert (await settled(submission)).status == "done"
        entries = await self.harness.conversation(submissions[0].conversation_id).transcript()
        return [entry.message.text for entry in entries if isinstance(entry.message, UserMessage)]


async def test_steers_are_placed_once_each_though_workers_are_killed_around_every_boundary(
    server: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    """One is killed in the request after the boundary, the others wherever they are between their round and there."""
    async with SteeredDrill(server, tmp_path, tracker_url) as on:
        first = await on.worker()
        between = [await on.steered(["in the tool", "request after a result"]) for _ in range(RUNS)]
        for arrival, _ in between:
            arrival.let_go()
        stops = [asyncio.ensure_future(on.reached(steers[0])) for _, steers in between]
        await asyncio.wait(stops, return_when=asyncio.FIRST_COMPLETED)
        await first.kill()
        for stop, (_, steers) in zip(stops, between, strict=True):
            stop.cancel()
            on.points.plan(steers[0].conversation_id, [], deadly=False)
        await on.worker()

        assert [await on.users(steers) for _, steers in between] == [["safe", "safe", "unsafe"]] * RUNS
        told = [await account(on.harness.client, steers[0].conversation_id) for _, steers in between]
        assert [each.failed_tasks for each in told] == [()] * RUNS
