"""Who expects which webhook: kept by Temporal, found without a worker, bounded, and over by itself."""

from __future__ import annotations

import asyncio
import uuid
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from temporalio.api.enums.v1 import EventType
from temporalio.client import WorkflowExecutionDescription

from signals.tokens import SignalKey
from tarry.core.expectation import EXPECT, KEEP, MAX_KEPT, Kept, Target, expectation_id
from tarry.core.waiting import RECEIPTS
from tarry.embedded import EmbeddedServer
from tarry.webhooks import MatchTaken, expect, registry
from tarry.webhooks.registry import Found, find, keep
from tests.replay.kept import replayer
from tests.support.gateways import expecting, gateway, parked
from tests.support.shell import signal, succeeds
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually
from tests.support.webhook_app import CiResult, app
from workflows import expectation

DONE = CiResult.key("done")
TASK = "conv-1~aa11/g1/t1.0"
TARGET = Target(task_id=TASK, signal="ci.result", key="done")
PASSED = {"status": "passed"}


def new_match() -> str:
    return uuid.uuid4().hex


async def kept(on: Stage, match: str, *deliveries: str, unexpected_for: timedelta = timedelta(hours=1)) -> None:
    """Webhooks that nobody expects yet."""
    for delivery in deliveries:
        one = Kept(value=PASSED, delivery_id=delivery)
        queue = on.settings.task_queue
        await keep(on.client, "ci", match, one, task_queue=queue, unexpected_for=unexpected_for, anew=True)


async def expected(on: Stage, match: str, task_id: str = TASK, key: SignalKey = DONE, **options: Any) -> None:
    await expect(on.client, "ci", match, task_id, key, task_queue=on.settings.task_queue, **options)


async def events(on: Stage, match: str) -> list[str]:
    """The names of all events of the current run."""
    history = await on.client.get_workflow_handle(expectation_id("ci", match)).fetch_history()
    return [EventType.Name(event.event_type).removeprefix("EVENT_TYPE_") for event in history.events]


async def described(on: Stage, match: str) -> WorkflowExecutionDescription:
    return await on.client.get_workflow_handle(expectation_id("ci", match)).describe()


async def has_another_run(on: Stage, match: str, run_id: str) -> bool:
    return (await described(on, match)).run_id != run_id


async def over(on: Stage, match: str) -> Found:
    """What is known of an expectation once it is over."""

    async def found() -> Found | None:
        return await find(on.client, "ci", match)

    known = await eventually(found, lambda one: one is not None and not one.is_open)
    assert known is not None
    return known


async def receipts(on: Stage, task_id: str) -> list[tuple[str, str]]:
    known = await on.client.get_workflow_handle(task_id).query(RECEIPTS)
    return [(one["answer"], one["delivery_id"]) for one in known]


@pytest.mark.parametrize("match", ["a/b", "a\nb", '"', "../x", "😀", " ", "m" * 8_192])
async def test_an_expectation_is_found_without_a_worker_whatever_its_match(
    server: EmbeddedServer, tmp_path: Path, match: str
) -> None:
    async with idle_stage(server, app, tmp_path) as on:
        match = new_match()[: 8_192 - len(match.encode())] + match

        before = await find(on.client, "ci", match)
        await expected(on, match)

        assert before is None
        assert await find(on.client, "ci", match) == Found(TARGET, is_open=True, is_full=False)
        assert await find(on.client, "bank", match) is None


async def test_the_same_expectation_again_changes_nothing(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app, tmp_path) as on:
        match = new_match()
        await asyncio.gather(*(expected(on, match) for _ in range(5)))
        before = await events(on, match)

        await expected(on, match)

        assert await events(on, match) == before
        query = f'WorkflowId = "{expectation_id("ci", match)}"'
        await eventually(lambda: on.client.count_workflows(query), lambda runs: runs.count == 1)


@pytest.mark.parametrize(("task_id", "key"), [("conv-2~bb/g1/t1.0", DONE), (TASK, CiResult.key("other"))])
async def test_another_target_for_the_same_match_is_refused(
    server: EmbeddedServer, tmp_path: Path, task_id: str, key: SignalKey
) -> None:
    async with idle_stage(server, app, tmp_path) as on:
        match = new_match()
        await expected(on, match)

        with pytest.raises(MatchTaken, match="give each wait a match of its own"):
            await expected(on, match, task_id, key)

        assert await find(on.client, "ci", match) == Found(TARGET, is_open=True, is_full=False)
        await expected(on, new_match(), task_id, key)


async def test_of_two_that_expect_what_came_early_the_first_gets_it(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app, tmp_path) as on:
        match = new_match()
        await kept(on, match, "event-1")
        await expected(on, match)

        with pytest.raises(MatchTaken):
            await expected(on, match, "conv-2~bb/g1/t1.0")
        handle = on.client.get_workflow_handle(expectation_id("ci", match))
        other = TARGET.model_copy(update={"key": "other"})
        await handle.signal(EXPECT, other)
        await expected(on, match)

        assert await find(on.client, "ci", match) == Found(TARGET, is_open=True, is_full=False)


@pytest.mark.parametrize(
    "bad", [("", DONE), ("m" * 8_193, DONE), ("m", CiResult.key("")), ("m", SignalKey("a/b", "c"))]
)
async def test_what_could_never_be_delivered_is_refused_before_anything_is_started(
    server: EmbeddedServer, tmp_path: Path, bad: tuple[str, SignalKey]
) -> None:
    async with idle_stage(server, app, tmp_path) as on:
        with pytest.raises(ValueError, match=r"."):
            await expected(on, bad[0], TASK, bad[1])


async def test_with_no_workflow_worker_up_the_server_keeps_who_expects_what_came_early(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_TELLING", timedelta(seconds=1))
    async with idle_stage(server, app, tmp_path) as on:
        async with on.worker():
            submission = await on.harness.conversation().submit("test it")
            task_id = await parked(on, submission.conversation_id)
        match = new_match()
        await kept(on, match, "event-1")
        await expected(on, match, task_id)

        async with on.worker():
            assert (await submission.wait()).answer_text == "CI passed"
            assert await receipts(on, task_id) == [("delivered", "event-1")]


async def test_what_came_early_is_delivered_in_order_and_the_first_good_one_wins(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on:
        match = new_match()
        handle = on.client.get_workflow_handle(expectation_id("ci", match))
        await kept(on, match, "event-1")
        await handle.signal(KEEP, Kept(value={"status": "failed"}, delivery_id="event-2"))
        submission = await on.harness.conversation().submit("test it")
        task_id = await parked(on, submission.conversation_id)

        await expected(on, match, task_id)

        assert (await submission.wait()).answer_text == "CI passed"
        assert await receipts(on, task_id) == [("delivered", "event-1")]
        assert (await events(on, match)).count("ACTIVITY_TASK_COMPLETED") == 1


async def test_after_its_end_webhooks_still_find_their_task_and_its_match_is_still_taken(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission = await on.harness.conversation().submit("test it")
        task_id = await parked(on, submission.conversation_id)
        match = new_match()
        await expected(on, match, task_id, expected_for=timedelta(seconds=1))
        known = await over(on, match)

        with pytest.raises(MatchTaken):
            await expected(on, match)
        late = [await sender.ci(match, "passed", "event-1"), await sender.ci(match, "failed", "event-2")]

        assert (known.target is not None and known.target.task_id, known.is_open) == (task_id, False)
        assert late[0].answer == "delivered"
        assert late[1].answer in ("duplicate", "closed")
        assert (await submission.wait()).answer_text == "CI passed"


async def test_the_same_target_may_expect_again_after_the_end(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app, tmp_path) as on:
        match = new_match()
        await expected(on, match, expected_for=timedelta(seconds=1))
        await over(on, match)

        await expected(on, match)

        assert await find(on.client, "ci", match) == Found(TARGET, is_open=True, is_full=False)


async def test_what_nobody_expects_is_over_after_its_time_and_counts_as_new_afterwards(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        match = new_match()
        await kept(on, match, "event-1", unexpected_for=timedelta(seconds=1))
        assert await over(on, match) == Found(None, is_open=False, is_full=False)

        assert (await sender.ci(match, "passed", "event-2")).answer == "kept"
        await expected(on, match)

        assert await find(on.client, "ci", match) == Found(TARGET, is_open=True, is_full=False)


async def test_a_flood_that_nobody_expects_is_bounded_and_told_to_come_again(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app, tmp_path) as on, gateway(on) as sender:
        match = new_match()
        answers = [await sender.ci(match, "passed", f"event-{n}") for n in range(MAX_KEPT + 10)]
        async with on.worker():
            submission = await on.harness.conversation().submit("test it")
            task_id = await parked(on, submission.conversation_id)
            await expected(on, match, task_id)

            statuses = [answer.status for answer in answers]
            assert statuses == sorted(statuses)
            assert (statuses[0], statuses[-1]) == (202, 503)
            assert statuses.count(202) <= MAX_KEPT
            assert (await submission.wait()).answer_text == "CI passed"
            assert (await receipts(on, task_id))[0] == ("delivered", answers[0].delivery_id)


async def test_large_webhooks_that_nobody_expects_are_bounded_in_bytes(server: EmbeddedServer, tmp_path: Path) -> None:
    async with idle_stage(server, app, tmp_path) as on, gateway(on) as sender:
        match = new_match()

        answers = [await sender.ci(match, "x" * 200_000, f"event-{n}") for n in range(5)]

        assert [answer.status for answer in answers] == [202, 202, 202, 503, 503]


JUNK = [
    [],
    ["5"],
    ["null"],
    ["{}"],
    ['{"value": 1}'],
    ['{"value": 1, "delivery_id": 7}'],
    ['{"value": 1, "delivery_id": "a"}', '{"value": 1, "delivery_id": "b"}'],
    [r'{"value": "\ud800", "delivery_id": "c"}'],
]


async def test_junk_signals_wedge_nothing_and_the_next_good_one_is_kept(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app, tmp_path) as on:
        match = new_match()
        await kept(on, match, "event-1")
        workflow_id = expectation_id("ci", match)
        for name in (KEEP, EXPECT, "unknown"):
            for inputs in JUNK:
                await signal(server, workflow_id, name, *inputs)
        encoded = ("--input", "x", "--input-meta", "encoding=acme/secret")
        await succeeds(server, "workflow", "signal", "-w", workflow_id, "--name", KEEP, *encoded)
        submission = await on.harness.conversation().submit("test it")
        task_id = await parked(on, submission.conversation_id)

        await expected(on, match, task_id)

        assert (await submission.wait()).answer_text == "CI passed"
        assert "WORKFLOW_TASK_FAILED" not in await events(on, match)


async def test_it_turns_over_under_traffic_and_carries_what_it_holds(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expectation, "TURNOVER_EVENTS", 30)
    async with stage(server, app, tmp_path) as on:
        early, targeted = new_match(), new_match()
        await kept(on, early, "event-1")
        await expected(on, targeted)
        first_runs = {match: (await described(on, match)).run_id for match in (early, targeted)}
        for match, first in first_runs.items():
            for n in range(60):
                await on.client.get_workflow_handle(expectation_id("ci", match)).signal("junk", n)
            await eventually(partial(has_another_run, on, match, first))

        assert await find(on.client, "ci", targeted) == Found(TARGET, is_open=True, is_full=False)
        submission = await on.harness.conversation().submit("test it")
        await expected(on, early, await parked(on, submission.conversation_id))
        assert (await submission.wait()).answer_text == "CI passed"
        for run_id in (first_runs[early], None):
            handle = on.client.get_workflow_handle(expectation_id("ci", early), run_id=run_id)
            await replayer(expectation.Expectation).replay_workflow(await handle.fetch_history())


async def test_a_cancelled_expectation_ends(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app, tmp_path) as on:
        match = new_match()
        await expecting(on, match, TASK, DONE)

        await on.client.get_workflow_handle(expectation_id("ci", match)).cancel()

        assert await over(on, match) == Found(TARGET, is_open=False, is_full=False)
