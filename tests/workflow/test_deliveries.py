"""What a delivery is answered, by every road into a task (spec §3.2 to §3.4)."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowUpdateFailedError
from temporalio.common import RawValue

from signals.parking import Sleep
from signals.tokens import MAX_VALUE_BYTES
from tarry.core.waiting import DELIVER
from tarry.embedded import EmbeddedServer
from tests.support.parking import (
    ANSWER,
    HOUR,
    ROADS,
    YES,
    Waits,
    by_signal,
    by_update,
    envelope,
    names,
    start,
    waiting_app,
    wedges,
)
from tests.support.shell import signal
from tests.support.stage import stage

DONE = Sleep(signals=[ANSWER.key("done")], until=HOUR)


async def test_value_wakes_a_parked_call_by_either_road(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        updated, signalled = await start(on, waits.tool), await start(on, waits.tool)
        for call in (updated, signalled):
            await call.parked()
        told = await updated.update("done", YES, delivery_id="d1")
        await signal(server, signalled.id, ANSWER.name, envelope("done", YES, delivery_id="d1"))

        assert [(await call.ends()).text for call in (updated, signalled)] == ["signal test.answer/done: yes"] * 2
        assert await updated.receipts() == [told]
        (kept,) = await signalled.receipts()
        assert (told.answer, told.delivery_id, told.reason) == ("delivered", "d1", "")
        assert kept.model_copy(update={"at": told.at}) == told
        assert wedges(await signalled.history()) == []


OBJECT = "one JSON object with key and value is expected"
GOOD = envelope("done", YES)


def raw(data: str, encoding: str = "json/plain", **metadata: str) -> RawValue:
    """An input, byte for byte."""
    named = {"encoding": encoding} | metadata
    return RawValue(Payload(metadata={name: text.encode() for name, text in named.items()}, data=data.encode()))


def value(text: str) -> list[RawValue]:
    """A good envelope around a value that is written out."""
    return [raw(f'{{"key": "done", "value": {text}}}')]


MALFORMED: dict[str, tuple[list[RawValue], str]] = {
    "no input": ([], f"{OBJECT}, 0 inputs came"),
    "two inputs": ([raw(GOOD), raw(GOOD)], f"{OBJECT}, 2 inputs came"),
    "a number": ([raw("5")], f"{OBJECT}, not a int"),
    "null": ([raw("null")], f"{OBJECT}, not a NoneType"),
    "a list": ([raw(f"[{GOOD}]")], f"{OBJECT}, not a list"),
    "encoded twice": ([raw(json.dumps(GOOD))], f"{OBJECT}, not a str"),
    "no value": ([raw('{"key": "done"}')], "the field 'value' is missing"),
    "no key": ([raw('{"value": {"text": "yes"}}')], "the field 'key' is missing"),
    "a field that is none": ([raw(envelope("done", YES, token="x"))], "unknown field 'token'"),
    "a key of another type": ([raw('{"key": 5, "value": {"text": "yes"}}')], "key: Input should be a valid string"),
    "a version of another type": ([raw(envelope("done", YES, version="1"))], "version: Input should be"),
    "a version that is true": ([raw(envelope("done", YES, version=True))], "version: Input should be"),
    "an id of another type": ([raw(envelope("done", YES, delivery_id=7))], "delivery_id: Input should be"),
    "a value of another type": (value('{"text": 5}'), "text: Input should be a valid string"),
    "a field too many": (value('{"text": "yes", "more": 1}'), "more: Extra inputs are not permitted"),
    "version 0": ([raw(envelope("done", YES, version=0))], "test.answer version 0 is not known here"),
    "a newer version": ([raw(envelope("done", YES, version=2))], "test.answer version 2 is not known here"),
    "no JSON": ([raw("{key: done}")], "it is no JSON"),
    "NaN": (value("NaN"), "the value is not JSON data: nan"),
    "infinity": (value('{"text": [-Infinity]}'), "the value is not JSON data: -inf"),
    "a lone surrogate": (value(r'{"text": "\ud800"}'), "it is no JSON"),
    "a number of 4000 digits": (value("9" * 4_000), "value: Input should be an object"),
    "a number of 5000 digits": (value("9" * 5_000), "it is no JSON"),
    "lists in lists": (value("[" * 150 + "]" * 150), "nested deeper than 100 levels"),
    "lists in lists in lists": (value("[" * 900 + "]" * 900), "it is no JSON"),
    "an empty key": ([raw(envelope("", YES))], "a key has 1 to 8192 bytes, this one has 0"),
    "a key of 100 kB": ([raw(envelope("k" * 100_000, YES))], "a key has 1 to 8192 bytes, this one has 100000"),
    "a value over 256 KiB": (value('{"text": "%s"}' % ("x" * 262_200)), "262144 are allowed"),
    "a value of 1.9 MB": (value('{"text": "%s"}' % ("x" * 1_900_000)), "262144 are allowed"),
    "a delivery id without end": ([raw(envelope("done", YES, delivery_id="d" * 300))], "delivery_id has 300"),
    "bytes": ([raw(GOOD, "binary/plain")], f"{OBJECT}, not a bytes"),
    "nothing": ([raw("", "binary/null")], f"{OBJECT}, not a NoneType"),
    "a message of nobody": ([raw(GOOD, "json/protobuf", messageType="acme.None")], "it is no JSON"),
    "a message": ([raw("{}", "json/protobuf", messageType="temporal.api.common.v1.Payload")], f"{OBJECT}, not a"),
    "an encoding that nobody knows": ([raw(GOOD, "acme/secret")], "it is no JSON"),
}


async def test_malformed_signals_are_receipted_as_invalid_and_the_next_good_one_wakes_the_call(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        for inputs, _ in MALFORMED.values():
            await call.handle.signal(ANSWER.name, args=inputs)
        assert await call.answers(len(MALFORMED)) == ["invalid"] * len(MALFORMED)
        told = [receipt.reason for receipt in await call.receipts()]
        wanted = [(name, reason) for name, (_, reason) in MALFORMED.items()]
        surprises = [(name, text) for (name, reason), text in zip(wanted, told, strict=True) if reason not in text]
        assert surprises == []
        await call.signal("done", YES)

        assert (await call.ends()).text == "signal test.answer/done: yes"
        assert wedges(await call.history()) == []


@pytest.mark.parametrize("road", ROADS)
async def test_every_answer_is_the_same_by_every_road_and_in_the_receipts(
    server: EmbeddedServer, tmp_path: Path, road: str
) -> None:
    deliver = ROADS[road]
    # Two keys have deadlines of their own: the first passes, the second is met.
    waits = Waits(Sleep(signals=[ANSWER.key("late")], until=timedelta(0)), DONE, holds=lambda seen: bool(seen.wake))
    waits.go.set()
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked(intent=2)
        given = [
            await deliver(call, "done", {"text": 5}, delivery_id="wrong"),
            await deliver(call, "late", YES, delivery_id="late"),
            await deliver(call, "early", YES, delivery_id="early"),
            await deliver(call, "early", {"text": "no"}, delivery_id="second"),
        ]
        waits.go.clear()
        given.append(await deliver(call, "done", YES, delivery_id="good"))
        await waits.ran(3)
        given.append(await deliver(call, "done", YES, delivery_id="again"))
        kept = [receipt.answer for receipt in await call.receipts()]
        waits.go.set()

        assert (await call.ends()).text == "signal test.answer/done: yes"
        assert [(told.delivery_id, told.answer) for told in given] == [
            ("wrong", "invalid"),
            ("late", "closed"),
            ("early", "delivered"),
            ("second", "duplicate"),
            ("good", "delivered"),
            ("again", "duplicate"),
        ]
        # A refused update is told to its sender alone.
        everything = [told.answer for told in given]
        assert kept == (everything if road == "plain signal" else ["delivered", "delivered"])
        assert [seen.wake for seen in waits.seen] == ["", "expired", "signal test.answer/done"]


async def test_update_that_is_refused_leaves_no_event(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        assert (await call.update("early", YES, delivery_id="d1")).answer == "delivered"
        before = await call.events()
        refused = [
            await call.update("done", {"text": 5}),
            await call.update("early", YES),
            await call.update("", YES),
            await call.update("k" * 10_000, YES),
            await call.update("done", YES, version=2),
            await call.update("done", YES, signal="test.anwser"),
            await call.update("done", YES, delivery_id="d" * 300),
            await call.update("early", YES, delivery_id="d1"),
        ]

        assert [told.answer for told in refused] == [
            *("invalid", "duplicate", "invalid", "invalid", "invalid", "invalid", "invalid"),
            "delivered",
        ]
        assert names(await call.events()) == names(before)


async def test_update_that_does_not_fit_is_refused_and_harms_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        for input in ([], [raw("5")], [raw("null")], [raw(GOOD)], [raw("{"), raw("{}")], [raw(GOOD, "acme/secret")]):
            with pytest.raises(WorkflowUpdateFailedError):
                await call.handle.execute_update(DELIVER, args=input)
        for number in ("NaN", "1e999", "9" * 4_000):
            text = f'{{"signal": "test.answer", "key": "done", "value": {number}}}'
            with pytest.raises(WorkflowUpdateFailedError):
                await call.handle.execute_update(DELIVER, args=[raw(text)])
        assert (await call.update("done", YES)).answer == "delivered"

        assert (await call.ends()).text == "signal test.answer/done: yes"
        assert wedges(await call.history()) == []


async def test_same_delivery_id_is_given_the_same_answer_by_either_road(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        first = await by_update(call, "early", YES, delivery_id="d1")
        again = [await deliver(call, "early", YES, delivery_id="d1") for deliver in ROADS.values()]
        other = await by_signal(call, "other", {"text": 5}, delivery_id="d1")
        mended = await by_update(call, "other", YES, delivery_id="d1")
        counted = len(await call.receipts())

        assert again == [first, first]
        assert (first.answer, other.answer, other.key) == ("delivered", "invalid", "other")
        assert mended == other, "what was refused under an id stays refused under it"
        assert counted == 2


ODD_KEYS = ["a/b", "a\nb", '"', "'", "../x", "\U0001f600", " ", "\x00", "\u202e", "k" * 5_000, "é" * 4_096]


async def test_any_text_up_to_8_kib_is_a_key_of_its_own(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key(key) for key in ODD_KEYS], until=HOUR))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        for key in ODD_KEYS:
            call = await start(on, waits.tool)
            await call.parked()
            assert (await by_signal(call, key, YES)).answer == "delivered"
            await call.ends()
            assert waits.seen[-1].wake == f"signal test.answer/{key}"
            assert wedges(await call.history()) == []


@pytest.mark.parametrize(
    ("key", "problem"), [("", "this one has 0"), ("k" * 100_000, "this one has 100000"), ("\ud800", "valid Unicode")]
)
async def test_park_on_a_key_that_nobody_could_deliver_under_is_refused(
    server: EmbeddedServer, tmp_path: Path, key: str, problem: str
) -> None:
    waits = Waits(Sleep(signals=[ANSWER.key(key)]))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        outcome = await (await start(on, waits.tool)).ends()

    assert outcome.code == "invalid_park"
    assert problem in outcome.text


async def test_value_of_256_kib_wakes_a_call_and_is_read_whole(server: EmbeddedServer, tmp_path: Path) -> None:
    longest = "x" * (MAX_VALUE_BYTES - len('{"text":""}'))
    waits = Waits(DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        for deliver in ROADS.values():
            call = await start(on, waits.tool)
            await call.parked()
            assert (await deliver(call, "done", {"text": longest + "x"})).answer == "invalid"
            assert (await deliver(call, "done", {"text": longest})).answer == "delivered"
            outcome = await call.ends()
            assert outcome.facts.full_output or len(outcome.text) > MAX_VALUE_BYTES
            assert wedges(await call.history()) == []
