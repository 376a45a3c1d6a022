"""What people decided stands in lists, with no worker up, and what came of it (spec §23.7)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from signals.parking import Sleep
from tarry.client.decisions import DecisionRecord, decisions
from tarry.embedded import EmbeddedServer
from tarry.gates import DECISION, Decision, approvals
from tests.support.gating import Gated, Ledger, gated_app, start_gated
from tests.support.inboxes import caller
from tests.support.parking import ANSWER, YES, Waits
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually


async def found_of(on: Stage, count: int, limit: int = 10) -> list[DecisionRecord]:
    """The decisions on this stage, newest first, once lists tell of so many."""
    now = datetime.now(UTC) + timedelta(minutes=1)
    return await eventually(
        lambda: decisions(on.client, on.settings.task_queue, now, limit), lambda found: len(found) == count
    )


async def decide(on: Stage, waiting: Gated, person: str, allow: bool, reason: str = "") -> str:
    """Answer the call's approval in a person's name; the digest that it was for."""
    key = (await waiting.asks()).keys[0].key
    await on.harness.signal(waiting.id, DECISION, key, Decision(allow=allow, reason=reason), by=person)
    return key


async def test_decisions_are_listed_with_who_why_and_what_came_of_them_when_no_worker_is_up(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        async with on.worker():
            allowed, denied, told = [await start_gated(on, "edit", path=path) for path in ("a", "b", "c")]
            digest = await decide(on, allowed, "Ana", True, "fine")
            await allowed.ends()
            await decide(on, denied, "Ben", False, "not today")
            await denied.ends()
            await told.decide(True, by="somebody")
            await told.ends()
        found = await found_of(on, 2)
        async with caller(on) as visitor:
            await visitor.sign_in()
            page = await visitor.get("/inbox/history")

    assert [(one.task_id, one.decided.by, one.decided.allowed, one.decided.reason, one.came) for one in found] == [
        (denied.id, "Ben", False, "not today", "not_run"),
        (allowed.id, "Ana", True, "fine", "ran"),
    ]
    assert (found[1].decided.digest, found[1].decided.arguments) == (digest, '{"mode":"w","path":"a"}')
    assert "not today" in page.text


async def test_what_a_person_told_a_task_is_kept_out_of_lists_though_that_it_came_is_not(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(*(Sleep(signals=[ANSWER.key(str(number))]) for number in range(5)))
    async with idle_stage(server, gated_app(waits.tool), tmp_path) as on:
        async with on.worker():
            waiting = await start_gated(on, "waits")
            for number in range(5):
                await waits.ran(number + 1)
                await on.harness.signal(waiting.id, ANSWER.name, str(number), YES, by=f"Ana {number}")
            await waiting.ends()
        found = await found_of(on, 3)

    assert [(one.decided.by, one.decided.key, one.decided.allowed) for one in found] == [
        (f"Ana {number}", str(number), None) for number in (4, 3, 2)
    ]
    assert not any(YES["text"] in one.decided.model_dump_json() for one in found)


async def test_further_decisions_are_reached_by_their_time(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, gated_app(Ledger().edit, approvals(lambda _: True)), tmp_path) as on:
        async with on.worker():
            calls = [await start_gated(on, "edit", path=str(number)) for number in range(4)]
            for number, waiting in enumerate(calls):
                await decide(on, waiting, f"Ana {number}", True)
                await waiting.ends()
        await found_of(on, 4)
        people: list[Any] = []
        before = datetime.now(UTC) + timedelta(minutes=1)
        while some := await decisions(on.client, on.settings.task_queue, before, 2):
            people.append([one.decided.by for one in some])
            before = some[-1].decided.at

    assert people == [["Ana 3", "Ana 2"], ["Ana 1", "Ana 0"]]
