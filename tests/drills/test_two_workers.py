"""A worker is killed beside another one, and where nothing of a conversation runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from tarry.embedded import EmbeddedServer
from tarry.settings import Settings
from tests.support.drills import ONCE_EACH, ROUND, Aftermath, Drill
from tests.support.histories import Account, account
from tests.support.waiting import eventually

DEFAULT = Settings.model_fields["heartbeat_timeout"].default


@dataclass(frozen=True)
class TakenOver:
    """What became of the conversation whose worker was killed, and of the one beside it."""

    lost: Aftermath
    unharmed: Aftermath
    runs_when_unharmed_ended: int
    seconds: float


@pytest.fixture(scope="module")
async def taken_over(server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory) -> TakenOver:
    """Two workers with the default timeout, each with room for one activity and in a tool; one of them is killed."""
    folder = tmp_path_factory.mktemp("two-workers")
    async with Drill(server, folder, tracker_url, max_concurrent_activities=1, heartbeat_timeout=DEFAULT) as on:
        await asyncio.gather(on.worker(), on.worker())
        lost = await on.submit("safe", stop_at=["before the effect"] * 2)
        doomed = await on.reached(lost)
        unharmed = await on.submit("safe", stop_at=["before the effect"])
        other = await on.reached(unharmed)
        assert doomed.pid != other.pid
        doomed.signal()
        killed = time.monotonic()
        other.let_go()
        quiet = await on.aftermath(unharmed)
        runs = len(on.runs(lost.conversation_id))
        rerun = await on.reached(lost)
        seconds = time.monotonic() - killed
        assert rerun.pid == other.pid
        rerun.let_go()
        return TakenOver(await on.aftermath(lost), quiet, runs, seconds)


async def test_other_worker_takes_over_a_killed_ones_tool_within_twelve_seconds_by_default(
    taken_over: TakenOver,
) -> None:
    assert taken_over.seconds <= 12
    (ticket,) = taken_over.lost.tickets
    assert taken_over.lost == Aftermath(
        end="done",
        kinds=ROUND,
        results=[f"Opened {ticket}"],
        runs=[1, 2],
        tickets=[ticket],
        account=Account(models=ONCE_EACH, tools=("completed 2",), announced=1),
    )


async def test_conversation_on_the_other_worker_ends_before_the_killed_one_is_even_missed(
    taken_over: TakenOver,
) -> None:
    assert taken_over.runs_when_unharmed_ended == 1
    (ticket,) = taken_over.unharmed.tickets
    assert taken_over.unharmed == Aftermath(
        end="done",
        kinds=ROUND,
        results=[f"Opened {ticket}"],
        runs=[1],
        tickets=[ticket],
        account=Account(models=ONCE_EACH, tools=("completed 1",)),
    )


async def test_worker_killed_between_two_turns_loses_nothing(drill: Callable[..., Drill]) -> None:
    async with drill(max_concurrent_activities=1) as on:
        first = await on.worker()
        between = await on.submit("safe", stop_at=["after the effect"])
        tool = await on.reached(between)
        # Its request waits for the only place for an activity, and takes it when the tool has ended.
        blocker = await on.submit("say never mind", stop_at=["request"])
        client = on.harness.client
        waiting = Account(models=("open",))
        await eventually(lambda: account(client, blocker.conversation_id), lambda found: found == waiting)
        tool.let_go()
        await on.reached(blocker)
        recorded = Account(models=("completed 1", "open"), tools=("completed 1",))
        await eventually(lambda: account(client, between.conversation_id), lambda found: found == recorded)

        await first.kill()

        assert len(on.requests(between.conversation_id)) == 1, "the next request was not yet being made"
        await on.worker()
        after, blocked = await on.aftermath(between), await on.aftermath(blocker)
        (ticket,) = after.tickets
        assert after == Aftermath(
            end="done",
            kinds=ROUND,
            results=[f"Opened {ticket}"],
            runs=[1],
            tickets=[ticket],
            account=Account(models=ONCE_EACH, tools=("completed 1",)),
        )
        assert (blocked.end, blocked.kinds) == ("done", ["user", "note", "assistant"])
