"""Signals whose code raises or hangs, and signals of other versions: nothing of it stops a call (spec §3.1, §3.6)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, field_validator
from temporalio.exceptions import ApplicationError

from signals.parking import Sleep
from signals.tokens import Signal
from tarry.embedded import EmbeddedServer
from tests.support.parking import HOUR, ROADS, YES, Answer, Waits, envelope, start, waiting_app, wedges
from tests.support.shell import signal
from tests.support.stage import idle_stage, stage


class Unprintable(Exception):
    """An error that cannot even be told."""

    def __str__(self) -> str:
        raise ValueError("no text")


RAISED: dict[str, BaseException] = {
    "ValueError": ValueError("out of range"),
    "ApplicationError": ApplicationError("out of range", non_retryable=True),
    "KeyError": KeyError("n"),
    "Unprintable": Unprintable(),
    "SystemExit": SystemExit(1),
    "KeyboardInterrupt": KeyboardInterrupt(),
    "CancelledError": asyncio.CancelledError(),
    "RecursionError": RecursionError("too deep"),
}
hung = threading.Event()


class Judged(BaseModel):
    """A value whose validator does what the value says."""

    text: str

    @field_validator("text")
    @classmethod
    def _does(cls, text: str) -> str:
        if text == "hangs":
            hung.wait(30)
        if text in RAISED:
            raise RAISED[text]
        return text


JUDGED = Signal("test.judged", 1, Judged)
DONE = Sleep(signals=[JUDGED.key("done")], until=HOUR)


@pytest.mark.parametrize("road", ROADS)
async def test_value_whose_validator_raises_is_invalid_and_the_call_goes_on(
    server: EmbeddedServer, tmp_path: Path, road: str
) -> None:
    waits = Waits(DONE, token=JUDGED)
    async with stage(server, waiting_app(waits.tool, signals=(JUDGED,)), tmp_path) as on:
        call = await start(on, waits.tool)
        call.name = JUDGED.name
        await call.parked()
        told = [await ROADS[road](call, "done", {"text": kind}) for kind in RAISED]
        good = await ROADS[road](call, "done", YES)

        assert [(receipt.answer, receipt.reason != "") for receipt in told] == [("invalid", True)] * len(RAISED)
        assert "out of range" in told[0].reason
        assert "ApplicationError" in told[1].reason
        assert good.answer == "delivered"
        assert (await call.ends()).text == "signal test.judged/done: yes"
        assert wedges(await call.history()) == []


async def test_validators_that_hang_hold_up_no_other_value(server: EmbeddedServer, tmp_path: Path) -> None:
    hung.clear()
    waits = Waits(DONE, token=JUDGED)
    async with idle_stage(server, waiting_app(waits.tool, signals=(JUDGED,)), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            call.name = JUDGED.name
            await call.parked()
        for _ in range(20):
            await call.signal("done", {"text": "hangs"})
        await call.signal("done", YES)
        async with on.worker():
            outcome = await call.ends()
            answers = await call.answers(21)
            history = await call.history()
        hung.set()

    assert outcome.text == "signal test.judged/done: yes"
    assert answers == ["invalid"] * 20 + ["delivered"]
    assert wedges(history) == []


async def test_update_whose_validator_hangs_is_answered_invalid(server: EmbeddedServer, tmp_path: Path) -> None:
    hung.clear()
    waits = Waits(DONE, token=JUDGED)
    async with stage(server, waiting_app(waits.tool, signals=(JUDGED,)), tmp_path) as on:
        call = await start(on, waits.tool)
        call.name = JUDGED.name
        await call.parked()
        told = await call.update("done", {"text": "hangs"})
        hung.set()

        assert (told.answer, told.reason) == ("invalid", "its validator gave no answer in 2 s")
        assert (await call.update("done", YES)).answer == "delivered"
        await call.ends()
        assert wedges(await call.history()) == []


async def test_misspelt_and_undeclared_names_are_refused_and_leave_the_call_parked(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(DONE, token=JUDGED)
    async with stage(server, waiting_app(waits.tool, signals=(JUDGED,)), tmp_path) as on:
        call = await start(on, waits.tool)
        parked = await call.parked()
        for name in ("test.jugded", "tarry.aprove", "x" * 900, "a\nb", "ä/ö"):
            await signal(server, call.id, name, envelope("done", YES))
        receipts = [
            (receipt.answer, receipt.reason) for _ in await call.answers(5) for receipt in await call.receipts()
        ]
        after = await call.view()
        await signal(server, call.id, JUDGED.name, envelope("done", YES))

        assert {answer for answer, _ in receipts} == {"invalid"}
        assert receipts[0][1] == "no signal is named 'test.jugded'"
        assert (after.state, after.keys) == (parked.state, parked.keys)
        assert (await call.ends()).text == "signal test.judged/done: yes"


def renamed(value: Any, version: int) -> Any:
    """From the first version, whose field had another name."""
    return {"text": value["answer"].upper()}


class First(BaseModel):
    """The first version of an answer."""

    answer: str


V1 = Signal("test.answer", 1, First)
V2 = Signal("test.answer", 2, Answer, migrate=renamed)
PARKED = Sleep(signals=[V2.key("done")], until=HOUR)


async def test_older_versions_are_read_migrated_and_newer_ones_are_invalid(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(PARKED, token=V2)
    async with stage(server, waiting_app(waits.tool, signals=(V2,)), tmp_path) as on:
        for deliver in ROADS.values():
            call = await start(on, waits.tool)
            await call.parked()
            newer = await deliver(call, "done", YES, version=3)
            unmigrated = await deliver(call, "done", {"other": 1}, version=1)
            older = await deliver(call, "done", {"answer": "yes"}, version=1)

            assert [receipt.answer for receipt in (newer, unmigrated, older)] == ["invalid", "invalid", "delivered"]
            assert newer.reason == "test.answer version 3 is not known here; known are 1 to 2"
            assert unmigrated.reason == "KeyError: 'answer'"
            assert (await call.ends()).text == "signal test.answer/done: YES"
            assert wedges(await call.history()) == []


async def test_value_stored_before_a_deploy_is_read_in_the_shape_that_the_deploy_brought(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    before = Waits(Sleep(signals=[V1.key("go")], until=HOUR), token=V1)
    after = Waits(Sleep(signals=[V2.key("go")], until=HOUR), Sleep(signals=[V2.key("done")], until=HOUR), token=V2)
    async with idle_stage(server, waiting_app(before.tool, signals=(V1,)), tmp_path) as on:
        async with on.worker():
            call = await start(on, before.tool)
            await call.parked()
            assert (await call.update("done", {"answer": "yes"})).answer == "delivered"
        async with on.worker(waiting_app(after.tool, signals=(V2,))):
            assert (await call.update("go", {"answer": "go"}, version=1)).answer == "delivered"
            outcome = await call.ends()
            history = await call.history()

    assert outcome.text == "signal test.answer/done: YES"
    assert [seen.wake for seen in after.seen] == ["signal test.answer/go", "signal test.answer/done"]
    assert wedges(history) == []


async def test_signal_removed_by_a_deploy_refuses_new_values_and_what_was_stored_stays_readable(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=[V2.key("done")], until=HOUR), token=V2)
    app, without = waiting_app(waits.tool, signals=(V2,)), waiting_app(waits.tool, signals=())
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            woken, waiting = await start(on, waits.tool), await start(on, waits.tool)
            await woken.parked()
            await waiting.parked()
        await woken.signal("done", YES)
        async with on.worker(without):
            refused = [await deliver(waiting, "done", YES) for deliver in ROADS.values()]
            answers = await woken.answers(1)
            still = await waiting.view()
        async with on.worker():
            for call in (woken, waiting):
                await call.update("done", YES)
                assert (await call.ends()).text == "signal test.answer/done: yes"
                assert wedges(await call.history()) == []

    assert [receipt.answer for receipt in refused] == ["invalid", "invalid"]
    assert answers == ["invalid"]
    assert still.state == "sleeping"
