"""What a park is: when it ends and why, what the woken run is given, and what it costs meanwhile (spec §3, §4.2)."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from signals.parking import MAX_PARK_BYTES, Ask, Sleep
from tarry.api import Expired, Received, ToolApi
from tarry.embedded import EmbeddedServer
from tarry.tools import tool
from tests.support.parking import (
    ANSWER,
    HOUR,
    YES,
    Waits,
    counts,
    envelope,
    names,
    start,
    waiting_app,
    wedges,
)
from tests.support.shell import signal
from tests.support.stage import idle_stage, stage

DONE = Sleep(signals=[ANSWER.key("done")], until=HOUR)
NOW = timedelta(0)


async def test_value_that_comes_before_the_park_wakes_it_at_once(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(DONE, holds=lambda seen: not seen.wake)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await waits.ran(1)
        assert (await call.update("done", YES)).answer == "delivered"
        waits.go.set()

        assert (await call.ends()).text == "signal test.answer/done: yes"
        assert [seen.wake for seen in waits.seen] == ["", "signal test.answer/done"]
        assert "TIMER_STARTED" not in names(await call.history())


async def test_woken_run_is_given_wake_checkpoint_and_a_key_of_its_own(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(Sleep(until=NOW), DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked(intent=2)
        await call.update("done", YES)
        outcome = await call.ends()
        view = await call.view()

    assert [(seen.wake, seen.checkpoint) for seen in waits.seen] == [
        ("", None),
        ("time", 1),
        ("signal test.answer/done", 2),
    ]
    assert len({seen.idempotency_key for seen in waits.seen}) == 3
    assert (view.state, view.intent, view.keys, outcome.code) == ("over", 3, (), "")


async def test_park_with_nothing_left_to_wait_for_ends_at_once(server: EmbeddedServer, tmp_path: Path) -> None:
    past: list[Any] = [NOW, -HOUR, datetime(1970, 1, 1, tzinfo=UTC), datetime.now(UTC) - HOUR]
    timed = [Waits(Sleep(until=until), name=f"timed{place}") for place, until in enumerate(past)]
    keyed = [Waits(Sleep(until=until, signals=DONE.signals), name=f"keyed{place}") for place, until in enumerate(past)]
    async with stage(server, waiting_app(*(waits.tool for waits in timed + keyed)), tmp_path) as on:
        calls = [await start(on, waits.tool) for waits in timed + keyed]
        ends = [(await call.ends()).text for call in calls]
        histories = [await call.history() for call in calls]

    assert ends == ["time"] * 4 + ["expired"] * 4
    assert [history for history in histories if wedges(history) or "TIMER_STARTED" in names(history)] == []


IMPOSSIBLE: dict[str, tuple[Sleep, str]] = {
    "nothing": (Sleep(), "a sleep needs until, signals, or both"),
    "a naive time": (Sleep(until=datetime(2030, 1, 1)), "until is a datetime without a time zone"),  # noqa: DTZ001
    "a number": (Sleep(until=5), "until must be an aware datetime or a timedelta, not a int"),  # type: ignore[arg-type]
    "NaN": (Sleep(until=float("nan")), "not a float"),  # type: ignore[arg-type]
    "a text": (Sleep(until="tomorrow"), "not a str"),  # type: ignore[arg-type]
    "too far": (Sleep(until=timedelta(days=40_000)), "over a hundred years ahead"),
    "the end of time": (Sleep(until=timedelta.max), "over a hundred years ahead"),
    "a key twice": (Sleep(signals=[ANSWER.key("a"), ANSWER.key("a")]), "a key is listed twice"),
    "a bare text": (Sleep(signals="done"), "signals must be a list or tuple"),  # type: ignore[arg-type]
    "an undeclared signal": (Sleep(signals=[type(ANSWER.key("a"))("test.other", "a")]), "no signal is named"),
    "65 keys": (Sleep(signals=[ANSWER.key(str(n)) for n in range(65)]), "at most 64 keys"),
    "no JSON": (Sleep(until=HOUR, checkpoint={1, 2}), "set is not JSON data"),
    "NaN kept": (Sleep(until=HOUR, checkpoint=float("nan")), "nan is not a JSON number"),
    "too much kept": (Sleep(until=HOUR, checkpoint="x" * MAX_PARK_BYTES), "park with a reference instead"),
    "a question of another kind": (Sleep(until=HOUR, ask=5), "ask must be a text or an Ask"),  # type: ignore[arg-type]
}


async def test_park_that_could_not_be_woken_is_an_error_result_that_says_why(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    @tool
    async def sleeps(how: str) -> Sleep:
        return IMPOSSIBLE[how][0]

    async with stage(server, waiting_app(sleeps), tmp_path) as on:
        outcomes = [await (await start(on, sleeps, how=how)).ends() for how in IMPOSSIBLE]

    assert {outcome.code for outcome in outcomes} == {"invalid_park"}
    told = [
        (how, outcome.text)
        for (how, (_, problem)), outcome in zip(IMPOSSIBLE.items(), outcomes, strict=True)
        if problem not in outcome.text
    ]
    assert told == []


async def test_longest_deadlines_are_kept(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(Sleep(until=timedelta(days=36_525), signals=DONE.signals))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        view = await call.parked()
        await call.update("done", YES)

        assert view.until is not None
        assert view.since is not None
        assert timedelta(0) <= timedelta(days=36_525) - (view.until - view.since) < timedelta(minutes=1)
        assert (await call.ends()).text == "signal test.answer/done: yes"
        assert wedges(await call.history()) == []


@pytest.mark.parametrize("restarts", [False, True])
async def test_key_that_woke_the_call_serves_no_second_wait(
    server: EmbeddedServer, tmp_path: Path, restarts: bool
) -> None:
    waits = Waits(DONE, DONE, holds=lambda seen: seen.wake != "" and restarts, replay="safe")
    async with idle_stage(server, waiting_app(waits.tool), tmp_path, shutdown_grace=0) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            await call.parked()
            await call.update("done", YES)
            await waits.ran(2)
        waits.go.set()
        async with on.worker():
            outcome = await call.ends()
            history = await call.history()

    assert outcome.code == "invalid_park"
    assert "has woken this task before; a second wait needs another key" in outcome.text
    assert {seen.wake for seen in waits.seen[1:]} == {"signal test.answer/done"}
    assert len(history) < 60


async def test_key_that_expired_serves_no_second_wait(server: EmbeddedServer, tmp_path: Path) -> None:
    waits = Waits(Sleep(signals=DONE.signals, until=NOW), DONE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        outcome = await (await start(on, waits.tool)).ends()

    assert outcome.code == "invalid_park"
    assert "has expired; another wait needs another key" in outcome.text


async def test_first_listed_key_that_holds_a_value_wakes_and_the_others_keep_theirs(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    keys = [ANSWER.key(key) for key in ("a", "b", "c")]
    waits = Waits(Sleep(signals=keys, until=HOUR), Sleep(signals=[keys[0], keys[2]], until=HOUR))
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            await call.parked()
        # Both are there when a worker looks: the order of the list decides.
        await call.signal("c", YES)
        await call.signal("b", YES)
        async with on.worker():
            outcome = await call.ends()

    assert [seen.wake for seen in waits.seen] == ["", "signal test.answer/b", "signal test.answer/c"]
    assert outcome.text == "signal test.answer/c: yes"


async def test_keys_are_read_without_waiting_whatever_woke_the_call(server: EmbeddedServer, tmp_path: Path) -> None:
    read: list[Any] = []
    begun, go = threading.Event(), threading.Event()

    @tool
    async def reads(api: ToolApi) -> Sleep | str:
        if api.wake is None:
            read.append(await api.read_signal(ANSWER, "early"))
            begun.set()
            go.wait(30)
            read.append(await api.read_signal(ANSWER, "early"))
            return Sleep(signals=[ANSWER.key("late")], until=NOW)
        read.extend([await api.read_signal(ANSWER, key) for key in ("early", "late", "other")])
        return "done"

    async with stage(server, waiting_app(reads), tmp_path) as on:
        call = await start(on, reads)
        assert await asyncio.to_thread(begun.wait, 30)
        await call.update("early", YES)
        go.set()
        await call.ends()

    nothing, received, again, expired, never = read
    assert (nothing, expired, never) == (None, Expired(), None)
    assert isinstance(received, Received)
    assert (received.value.text, again) == ("yes", received)


async def test_first_value_after_a_restart_is_delivered_and_the_second_is_told_so(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(DONE, holds=lambda seen: bool(seen.wake))
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            await call.parked()
        async with on.worker():
            first = await call.update("done", YES, delivery_id="click-1")
            second = await call.update("done", YES, delivery_id="click-2")
            waits.go.set()
            outcome = await call.ends()

    assert (first.answer, second.answer) == ("delivered", "duplicate")
    assert outcome.text == "signal test.answer/done: yes"


async def test_value_sent_twice_at_once_and_again_after_the_wake_counts_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(DONE, holds=lambda seen: bool(seen.wake))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await call.signal("done", YES)
        await call.signal("done", YES)
        await waits.ran(2)
        await call.signal("done", YES)
        answers = await call.answers(3)
        waits.go.set()
        outcome = await call.ends()
        late = await on.harness.signal(call.id, ANSWER, "done", ANSWER.read(YES, 1))

    assert answers == ["delivered", "duplicate", "duplicate"]
    assert (outcome.text, len(waits.seen)) == ("signal test.answer/done: yes", 2)
    assert late.answer == "closed"


async def test_nothing_but_the_end_is_left_when_the_signal_wins_over_the_deadline(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(Sleep(signals=DONE.signals, until=4 * HOUR))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await signal(server, call.id, ANSWER.name, envelope("done", YES))
        await call.ends()
        history = names(await call.history())

    assert history[-1] == "WORKFLOW_EXECUTION_COMPLETED"
    assert [name for name in history if name.startswith("TIMER")] == ["TIMER_STARTED", "TIMER_CANCELED"]


async def test_park_and_its_wake_cost_few_events_and_waiting_costs_none(server: EmbeddedServer, tmp_path: Path) -> None:
    asked = Sleep(signals=DONE.signals, until=HOUR, ask=Ask(text="Deploy?", for_whom="ops"))
    waits = Waits(asked)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            call = await start(on, waits.tool)
            await call.parked()
            parked = await call.events()
            for _ in range(3):
                await call.view()
        async with on.worker():
            await call.view()
            assert len(await call.events()) == len(parked)
            await call.update("done", YES)
            await call.ends()
            history = await call.history()

    assert counts(parked) == {
        "WORKFLOW_EXECUTION_STARTED": 1,
        **{f"WORKFLOW_TASK_{part}": 2 for part in ("SCHEDULED", "STARTED", "COMPLETED")},
        **{f"ACTIVITY_TASK_{part}": 1 for part in ("SCHEDULED", "STARTED", "COMPLETED")},
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES": 1,
        "WORKFLOW_PROPERTIES_MODIFIED": 1,
        "TIMER_STARTED": 1,
    }
    assert {name: count for name, count in counts(history[len(parked) :]).items() if "WORKFLOW_TASK" not in name} == {
        "WORKFLOW_EXECUTION_UPDATE_ACCEPTED": 1,
        "WORKFLOW_EXECUTION_UPDATE_COMPLETED": 1,
        "TIMER_CANCELED": 1,
        "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES": 1,
        # One judges the value, one is the woken run.
        "ACTIVITY_TASK_SCHEDULED": 2,
        "ACTIVITY_TASK_STARTED": 2,
        "ACTIVITY_TASK_COMPLETED": 2,
        "WORKFLOW_EXECUTION_COMPLETED": 1,
    }
    assert len(history) - len(parked) <= 21
