"""The server is killed and started again on its file while calls are parked: values, deadlines and wakes are there."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from tarry.client import Submission
from tarry.embedded import EmbeddedServer, ServerOptions
from tests.support.drills import ONCE_EACH
from tests.support.histories import Account
from tests.support.parked_app import DONE, NEWS, News
from tests.support.parked_drills import Life, ParkedDrill, call_of
from tests.support.waiting import eventually

SECONDS = 4
"""How long the calls wait whose deadline passes while the server is down."""

PATIENT = 30.0
"""Seconds of silence: a run that is under way while the server is down is not to be taken for lost."""

FIRED = EventType.EVENT_TYPE_TIMER_FIRED
TWICE = ("completed 1", "completed 1")
WOKEN = ["unsafe 1, key 1", f"unsafe 1, key 2, signal {NEWS.name}/{DONE} after asked"]
EXPIRED = ["unsafe 1, key 1", "unsafe 1, key 2, expired after asked"]
PLAIN = Account(models=ONCE_EACH, tools=TWICE)
RULED = Account(models=ONCE_EACH, tools=TWICE, referees=("completed 1",))


@pytest.fixture
async def mortal(tmp_path: Path) -> AsyncIterator[EmbeddedServer]:
    """A server of the test's own, with its state in a file."""
    async with EmbeddedServer(ServerOptions(database=tmp_path / "temporal.db")) as running:
        yield running


async def parked(on: ParkedDrill, *inputs: str) -> list[Submission]:
    """A parked call for each input."""
    submissions = await asyncio.gather(*(on.submit(text) for text in inputs))
    await asyncio.gather(*map(on.parked_call, submissions))
    return submissions


async def passed(deadline: datetime) -> None:
    """Return when it is later than that: no server tells of it."""

    async def now() -> datetime:
        return datetime.now(UTC)

    await eventually(now, lambda time: time > deadline)


async def test_calls_parked_under_a_killed_server_are_woken_or_expire_under_the_next(
    mortal: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    async with ParkedDrill(mortal, tmp_path / "drill", tracker_url, heartbeat_timeout=PATIENT) as on:
        await on.worker()
        early = await on.submit("unsafe", stop_at=["before the park"])
        about_to_park = await on.reached(early)
        assert (await on.harness.signal(call_of(early), NEWS, DONE, News(text="early"))).answer == "delivered"
        patient, expiring = await parked(on, "unsafe", f"unsafe {SECONDS}")
        until = (await on.harness.task(call_of(expiring))).until
        assert until is not None

        await mortal.kill()
        about_to_park.let_go()
        await passed(until)
        await mortal.start()

        sent = await on.harness.signal(call_of(patient), NEWS, DONE, News(text="it rains"), delivery_id="d")
        assert sent.answer in ("delivered", "accepted")
        assert await on.life(patient) == Life(results=["it rains"], ledger=WOKEN, account=PLAIN)
        assert await on.life(expiring) == Life(results=["expired"], ledger=EXPIRED, account=PLAIN, receipts=())
        assert (await on.harness.signal(call_of(expiring), NEWS, DONE, News(text="late"))).answer == "closed"
        life = await on.life(early)
        assert life == Life(results=["early"], ledger=WOKEN, account=PLAIN, receipts=life.receipts)


async def test_values_that_a_server_kept_without_any_worker_outlive_it_and_deadlines_pass_while_it_is_down(
    mortal: EmbeddedServer, tracker_url: str, tmp_path: Path
) -> None:
    async with ParkedDrill(mortal, tmp_path / "drill", tracker_url) as on:
        first = await on.worker()
        kept, in_time, late = await parked(on, "unsafe", f"unsafe {SECONDS}", f"unsafe {SECONDS}")
        until = (await on.harness.task(call_of(late))).until
        assert until is not None
        await first.kill()
        await on.send(call_of(kept), "it rains", "d")
        await on.send(call_of(in_time), "in time", "d1")

        await mortal.kill()
        await passed(until)
        await mortal.start()

        for submission in (in_time, late):
            await on.happened(call_of(submission), FIRED)
            await on.send(call_of(submission), "too late", "d2")
        await on.worker()
        assert await on.life(kept) == Life(results=["it rains"], ledger=WOKEN, account=PLAIN)
        assert await on.life(in_time) == Life(
            results=["in time"], ledger=WOKEN, account=RULED, receipts=("d1 delivered", "d2 duplicate")
        )
        assert await on.life(late) == Life(results=["expired"], ledger=EXPIRED, account=RULED, receipts=("d2 closed",))
