"""One look at the server for all who watch the inbox (spec §23.1)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarry.embedded import EmbeddedServer
from tarry.gates import approvals
from tests.support.gating import Ledger, gated_app, start_gated
from tests.support.rpcs import counted_rpcs
from tests.support.stage import stage
from workers.inbox.board import Board, Standing


async def test_all_watchers_hear_of_a_question_from_the_same_looks(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        board = Board(on.client, on.settings.task_queue)
        looks = 0

        async def watch() -> Standing:
            async for standing in board.changes():
                if standing.parked:
                    return standing
            raise AssertionError("it closed")

        with counted_rpcs() as asked:
            watchers = [asyncio.create_task(watch()) for _ in range(20)]
            await asyncio.sleep(2.5)
            looks = asked["list_workflow_executions"]
        waiting = await start_gated(on, "edit", path="a.txt")
        heard = await asyncio.gather(*watchers)

    assert looks <= 4, "one a second for all of them"
    assert [[one.task_id for one in standing.parked] for standing in heard] == [[waiting.id]] * 20
    assert board.watched == 0


async def test_a_board_that_closes_ends_every_watch(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, gated_app(Ledger().edit), tmp_path) as on:
        board = Board(on.client, on.settings.task_queue)

        heard: list[int] = []
        async with asyncio.timeout(60):
            async for standing in board.changes():
                heard.append(len(standing.parked))
                board.close()

    assert (heard, board.watched) == ([0], 0)
