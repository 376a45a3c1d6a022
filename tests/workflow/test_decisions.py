"""What people decided stands in lists, with no worker up, and what came of it (spec §23.7)."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import WorkflowExecution

from signals.parking import Sleep
from tarry.client import decisions as history
from tarry.client.decisions import DecisionRecord, decisions
from tarry.core.decisions import Decided
from tarry.core.waiting import TaskView
from tarry.embedded import EmbeddedServer
from tarry.gates import DECISION, Decision, approvals
from tests.support.gating import Gated, Ledger, gated_app, start_gated
from tests.support.inboxes import caller
from tests.support.parking import ANSWER, YES, Waits
from tests.support.stage import Stage, idle_stage
from tests.support.waiting import eventually
from workers.inbox import routes


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


async def test_the_newest_are_found_where_more_were_made_in_an_hour_than_one_list_holds(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "_MOST", 3)
    waits = Waits(*[Sleep(signals=[ANSWER.key(key)]) for key in "ab"])
    async with idle_stage(server, gated_app(waits.tool), tmp_path) as on:
        async with on.worker():
            calls = [await start_gated(on, "waits") for _ in range(7)]
            # What began last is decided first: lists of the dev server begin with it.
            for number, waiting in enumerate(reversed(calls)):
                await eventually(waiting.view, lambda view: view.state == "sleeping")
                await on.harness.signal(waiting.id, ANSWER.name, "a", YES, by=f"Ana {number}")
        await found_of(on, 7)
        people: list[str] = []
        before = datetime.now(UTC) + timedelta(minutes=1)
        while some := await decisions(on.client, on.settings.task_queue, before, 2):
            people += [one.decided.by for one in some]
            before = some[-1].decided.at

    assert people == [f"Ana {number}" for number in (6, 5, 4, 3, 2, 1, 0)]


async def test_no_task_is_left_out_between_two_pages_of_the_history(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(routes, "HISTORY", 1)
    known = history._decided

    async def decided(found: WorkflowExecution) -> tuple[Decided, ...]:
        """As by a process that cannot read what was decided of one of them."""
        return () if found.id == unreadable else await known(found)

    def waits_for(key: str) -> Callable[[TaskView], bool]:
        return lambda view: key in [one.key for one in view.keys]

    waits = Waits(Sleep(signals=[ANSWER.key("1")]), Sleep(signals=[ANSWER.key("2")]))
    async with idle_stage(server, gated_app(waits.tool), tmp_path) as on:
        async with on.worker():
            long, short = [await start_gated(on, "waits") for _ in range(2)]
            unreadable = ""
            for waiting, key, name in ((long, "1", "Ana"), (short, "1", "Ben"), (long, "2", "Olga")):
                await eventually(waiting.view, waits_for(key))
                await on.harness.signal(waiting.id, ANSWER.name, key, YES, by=name)
            await long.ends()
        await found_of(on, 3)
        async with caller(on) as visitor:
            await visitor.sign_in()

            async def pages() -> list[str]:
                """The history, page by page."""
                address, found = "/inbox/history", list[str]()
                while address and len(found) < 5:
                    found.append((await visitor.get(address)).text)
                    [address] = re.findall(r'rel="next" href="([^"]*)"', found[-1]) or [""]
                return found

            whole = await pages()
            monkeypatch.setattr(history, "_decided", decided)
            unreadable = long.id
            partly = await pages()
            odd = [
                await visitor.http.get("/inbox/history", params={"before": before})
                for before in ("0001-01-01T00:00:00+00:00", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00")
            ]

    people = [[name for name in ("Ana", "Ben", "Olga") if f"<strong>{name}" in page] for page in whole]
    assert people[:2] == [["Ana", "Olga"], ["Ben"]]
    assert ["[not readable here]" in page for page in partly[:2]] == [True, False]
    assert "<strong>Ben" in partly[1]
    assert [one.status_code for one in odd] == [200] * 3
