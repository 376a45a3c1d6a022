"""A tree of agents continues as new whenever its history is long, and loses nothing by it (spec §17.14)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowHandle
from temporalio.service import RPCError, RPCStatusCode

from activities.agents.turns import AgentTurns
from bench.histories import runs_of
from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import WORK, Grove, grove
from tests.support.held import HeldMethod
from tests.support.waiting import PATIENCE, eventually

TURNOVER_EVENTS = 40


async def runs(on: Grove) -> int:
    return len(await runs_of(on.on.client, on.tree.id))


async def test_what_executes_waits_and_is_queued_goes_along_when_a_tree_turns_over(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(lowered_server, tmp_path, limit=2, turnover_events=TURNOVER_EVENTS) as on:
        names = "abcdefgh"
        for name in names:
            await on.start(name, WORK + name)
        await on.work.has_begun("a", "b")
        for number in range(30):
            await on.send(f"/root/{names[number % 8]}", f"m{number}")

        before = await runs(on)
        held = await on.tree.list()
        on.work.let()
        read = await on.completions(8)

        assert before >= 4
        assert (held.permits_used, held.queued) == (2, 6)
        assert {one.path for one in read} == {f"/root/{name}" for name in names}
        assert {one.text for one in read} == {f"done {WORK}{name}" for name in names}
        assert on.work.peak == 2
        pending = {row.path: row.pending for row in (await on.tree.list()).agents}
        assert pending == {f"/root/{name}": 4 if name in "abcdef" else 3 for name in names}
        await on.follow_up("/root/a")
        (completion,) = await on.completions(1)
        assert completion.text == "heard m0\n\nm8\n\nm16\n\nm24"


async def test_a_call_that_asks_again_after_a_turnover_is_answered_as_before(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(lowered_server, tmp_path, turnover_events=TURNOVER_EVENTS) as on:
        starter, sender = on.caller(), on.caller()
        started = await on.start("a", by=starter)
        sent = await on.send("a", "once", by=sender)
        for number in range(20):
            await on.send("a", f"m{number}")
        assert await eventually(lambda: runs(on), lambda found: found >= 3)

        assert (await on.start("a", by=starter)).turn_id == started.turn_id
        assert await on.send("a", "once", by=sender) == sent
        assert (await on.row("/root/a")).pending == 21


async def test_messages_that_come_together_while_a_tree_turns_over_all_arrive_once(
    lowered_server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(lowered_server, tmp_path, turnover_events=TURNOVER_EVENTS) as on:
        await on.start("a")
        await on.completions(1)
        before = await runs(on)

        sent = await asyncio.gather(*(on.send("a", f"m{number}") for number in range(60)))

        assert sorted(one.pending for one in sent) == list(range(1, 61))
        assert await runs(on) > before
        await on.follow_up("a")
        (completion,) = await on.completions(1)
        assert sorted(completion.text.removeprefix("heard ").split()) == sorted(f"m{number}" for number in range(60))


async def test_an_order_that_fails_for_long_holds_up_neither_the_others_nor_the_turn(
    lowered_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = HeldMethod(monkeypatch, AgentTurns, "begin")
    async with grove(lowered_server, tmp_path, turnover_events=TURNOVER_EVENTS) as on:
        await on.start("a")
        await asyncio.wait_for(held.reached.wait(), PATIENCE)
        number = 0
        while await runs(on) < 2:
            await on.send("a", f"m{number}")
            number += 1

        assert (await on.state("/root/a"), number > 90) == ("starting", True)
        held.go.set()
        assert [one.text for one in await on.completions(1)] == ["heard go"]
        assert (await on.row("/root/a")).pending == number


async def test_a_request_that_a_reset_of_the_tree_cut_off_is_asked_again(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    says = [RPCError("workflow update was aborted by closing workflow", RPCStatusCode.NOT_FOUND, b"")]
    ask = WorkflowHandle.execute_update

    async def cut_off_once(handle: WorkflowHandle[Any, Any], *args: Any, **named: Any) -> Any:
        if says:
            raise says.pop()
        return await ask(handle, *args, **named)

    async with grove(server, tmp_path) as on:
        monkeypatch.setattr(WorkflowHandle, "execute_update", cut_off_once)

        assert (await on.start("a")).path == "/root/a"
        assert says == []
