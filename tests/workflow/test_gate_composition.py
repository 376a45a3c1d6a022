"""Several gates at once, in any order: each is asked on every wake, and all must let the call pass (spec §5.1)."""

from __future__ import annotations

import asyncio
import itertools
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pytest

from tarry.app import Extension
from tarry.embedded import EmbeddedServer
from tarry.gates import SqliteQuotas, approvals, quiet_hours, quota
from tarry.hooks import HookCall
from tests.support.gating import Ledger, gate, gated_app, start_gated
from tests.support.parking import HOUR
from tests.support.stage import idle_stage, stage
from tests.support.waiting import eventually

SECOND = timedelta(seconds=1)


def always(call: HookCall) -> bool:
    return True


def clock(ahead: timedelta) -> time:
    """What a clock in UTC will show."""
    return (datetime.now(UTC) + ahead).time().replace(microsecond=0)


def shows(at: time) -> datetime:
    """When it does, within half a day."""
    now = datetime.now(UTC)
    found = datetime.combine(now.date(), at, UTC)
    return found + round((now - found) / timedelta(days=1)) * timedelta(days=1)


async def test_gates_let_a_call_run_once_in_whatever_order_they_are_installed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async def runs(gates: tuple[Extension, ...]) -> tuple[str, int]:
        ledger = Ledger()
        async with stage(server, gated_app(ledger.edit, *gates), tmp_path) as on:
            waiting = await start_gated(on, "edit", path="a.txt")
            await waiting.decide(allow=True)
            return (await waiting.ends()).code, len(ledger.runs)

    asks = approvals(always)
    quiet = quiet_hours(clock(-SECOND), clock(3 * SECOND), "UTC")
    orders = list(itertools.permutations((asks, quiet, quota(6, HOUR, SqliteQuotas(tmp_path / "q.db")))))
    found = await asyncio.gather(*map(runs, orders))

    assert found == [("", 1)] * 6


async def test_a_call_that_is_approved_in_quiet_hours_waits_for_their_end_and_is_not_asked_about_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger, begins, ends = Ledger(), clock(4 * SECOND), clock(7 * SECOND)
    told: list[datetime] = []
    asked: list[datetime] = []
    app = gated_app(
        ledger.edit,
        quiet_hours(begins, ends, "UTC"),
        gate(lambda call, api: asked.append(api.now()), name="counts"),
        approvals(always, notify=lambda call, question: told.append(question.until)),
    )
    async with stage(server, app, tmp_path) as on:
        waiting = await start_gated(on, "edit", path="a.txt")
        key = (await waiting.asks()).keys[0].key
        await eventually(lambda: asyncio.sleep(0, datetime.now(UTC) > shows(begins)))
        await waiting.decide(allow=True, key=key)
        view = await waiting.asks(lambda view: not view.keys)
        outcome = await waiting.ends()
        history = await waiting.history()

    ended = history[-1].event_time.ToDatetime(tzinfo=UTC)
    assert (view.until, view.ask) == (shows(ends), None)
    assert timedelta(0) <= ended - shows(ends) < 2 * SECOND
    assert (outcome.code, len(ledger.runs), len(told)) == ("", 1, 1)
    assert [at >= shows(ends) for at in asked] == [False, True]


async def test_a_call_beyond_the_quota_runs_when_its_span_has_room(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    app = gated_app(ledger.edit, quota(1, 3 * SECOND, SqliteQuotas(tmp_path / "q.db")))
    async with stage(server, app, tmp_path) as on:
        first = await start_gated(on, "edit", path="first")
        await first.ends()
        second = await start_gated(on, "edit", path="second")
        view = await second.asks()
        await second.reasked("another")
        await second.ends()
        began = (await first.history())[0].event_time.ToDatetime(tzinfo=UTC)

    assert [run["path"] for run in ledger.runs] == ["first", "second"]
    assert view.until is not None
    assert 3 * SECOND <= view.until - began < 4 * SECOND


@pytest.mark.parametrize("end", ["denied", "aborted"])
async def test_a_slot_of_a_call_that_never_ran_is_given_back_with_its_result(
    server: EmbeddedServer, tmp_path: Path, end: str
) -> None:
    ledger = Ledger()
    app = gated_app(
        ledger.edit,
        quota(1, HOUR, SqliteQuotas(tmp_path / "q.db")),
        approvals(lambda call: "b" in str(call.arguments["path"])),
    )
    async with stage(server, app, tmp_path) as on:
        refused = await start_gated(on, "edit", path="b.txt")
        await refused.asks()
        other = await start_gated(on, "edit", path="a.txt")
        assert (await other.asks()).keys == (), "it waits for room"
        await (refused.decide(allow=False) if end == "denied" else refused.handle.cancel())
        outcome = await refused.ends()
        await other.reask("another")
        await other.ends()

    assert (outcome.code, [run["path"] for run in ledger.runs]) == (end, ["a.txt"])


async def test_passes_after_a_restart_take_no_second_slot(server: EmbeddedServer, tmp_path: Path) -> None:
    ledger = Ledger()
    app = gated_app(ledger.edit, quota(2, HOUR, SqliteQuotas(tmp_path / "q.db")), approvals(always))
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            first = await start_gated(on, "edit", path="first")
            await first.asks()
        async with on.worker():
            await first.reasked("another")
            await first.decide(allow=True)
            await first.ends()
            second = await start_gated(on, "edit", path="second")
            await second.decide(allow=True)
            await second.ends()

    assert [run["path"] for run in ledger.runs] == ["first", "second"]
