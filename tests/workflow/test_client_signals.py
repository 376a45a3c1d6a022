"""Delivering values by the client: every answer, by either road, and what the receipts say (spec §3.2 to §3.4)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from signals.box import Receipt
from signals.tokens import MAX_VALUE_BYTES, Signal
from tarry import embedded
from tarry.client import NoSuchTask, ServerUnavailable, Submission, signals
from tarry.client.tasks import VERDICT_PATIENCE
from tarry.core.waiting import SignalResult
from tarry.embedded import EmbeddedServer
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually
from tests.support.waiting_app import CI_RESULT, Verdict, app

PASSED = {"status": "passed"}
NAME = CI_RESULT.name


@pytest.fixture
async def served(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage with a worker."""
    async with stage(server, app, tmp_path) as made:
        yield made


@pytest.fixture
async def idle(server: EmbeddedServer, tmp_path: Path) -> AsyncIterator[Stage]:
    """A stage on which the test starts its workers."""
    async with idle_stage(server, app, tmp_path) as made:
        yield made


async def parked(on: Stage, key: str = "done") -> tuple[str, Submission]:
    """A call that waits for `key` without a deadline, and the submission that made it."""
    return await _called(on, key, "sleeping")


async def running(on: Stage) -> tuple[str, Submission]:
    """A call that runs until it is stopped, and the submission that made it."""
    return await _called(on, "run on", "running")


async def _called(on: Stage, text: str, state: str) -> tuple[str, Submission]:
    # A quote, since ids stand in queries and patterns.
    conversation = on.harness.conversation(f"it's-{uuid.uuid4().hex[:8]}")
    submission = await conversation.submit(text)

    async def calls() -> list[str]:
        found = [item async for item in on.harness.work(conversation_id=conversation.id)]
        return [item.id for item in found if item.kind == "tool call" and item.state == state]

    (task_id,) = await eventually(calls)
    return task_id, submission


def told(result: SignalResult | Receipt | None) -> tuple[str, str]:
    """Answer and reason."""
    assert result is not None
    return result.answer, result.reason


async def test_first_value_is_delivered_and_wakes_and_the_ended_call_is_closed(served: Stage) -> None:
    task_id, submission = await parked(served)

    first = await served.harness.signal(task_id, CI_RESULT, "done", Verdict(status="passed"))
    answer = await submission.wait()
    late = await served.harness.signal(task_id, CI_RESULT, "done", Verdict(status="failed"))

    assert told(first) == ("delivered", "")
    assert (answer.status, answer.answer_text) == ("done", "thank you")
    assert told(late) == ("closed", "the task is over")


async def test_second_value_of_a_key_is_a_duplicate_and_the_first_one_stays(served: Stage) -> None:
    task_id, _ = await parked(served)

    early = await served.harness.signal(task_id, CI_RESULT, "later", Verdict(status="passed"), delivery_id="d1")
    second = await served.harness.signal(task_id, NAME, "later", {"status": "failed"}, delivery_id="d2")

    assert told(early) == ("delivered", "")
    assert told(second) == ("duplicate", "the key holds a value; the first one stays")
    receipts = (await served.harness.task(task_id)).receipts
    assert [(one.delivery_id, one.answer) for one in receipts] == [("d1", "delivered")]


@pytest.mark.parametrize(
    ("name", "value", "version", "reason"),
    [
        (NAME, {"status": 1}, None, "status: Input should be a valid string"),
        (NAME, PASSED, 2, "app.ci-result version 2 is not known here; known are 1 to 1"),
        ("app.unknown", PASSED, None, "no signal is named 'app.unknown'"),
    ],
)
async def test_what_the_task_refuses_is_invalid_and_leaves_no_event(
    name: str, value: Any, version: int | None, reason: str, served: Stage
) -> None:
    task_id, _ = await parked(served)
    before = (await served.client.get_workflow_handle(task_id).describe()).history_length

    refused = await served.harness.signal(task_id, name, "done", value, version=version)

    after = (await served.client.get_workflow_handle(task_id).describe()).history_length
    assert (told(refused), after) == (("invalid", reason), before)
    assert (await served.harness.task(task_id)).receipts == ()


@pytest.mark.parametrize(
    ("name", "key", "value", "options", "reason"),
    [
        (NAME, "", PASSED, {}, "a key has 1 to 8192 bytes, this one has 0"),
        (NAME, "\udc80", PASSED, {}, "a key must be valid Unicode"),
        ("app/x", "k", PASSED, {}, "signal name 'app/x' must be 1 to 200 printable characters without '/'"),
        ("tarry.abort", "k", PASSED, {}, "names that begin with 'tarry.' are no signals of an application"),
        (NAME, "k", float("nan"), {}, "the value is not JSON data: nan is not a JSON number"),
        (NAME, "k", {"status": "\udc80"}, {}, "the value is not JSON data: a text holds a lone surrogate"),
        (NAME, "k", object(), {}, "the value is not JSON data: object is not JSON data"),
        (
            NAME,
            "k",
            "x" * MAX_VALUE_BYTES,
            {},
            "the value has 262146 bytes, 262144 are allowed; send a reference instead",
        ),
        (NAME, "k", PASSED, {"version": 0}, "a version is a whole number from 1, not 0"),
        (NAME, "k", PASSED, {"version": True}, "a version is a whole number from 1, not True"),
        (NAME, "k", PASSED, {"delivery_id": "d" * 201}, "a delivery id is a text of at most 200 characters"),
        (NAME, "k", PASSED, {"delivery_id": "\udc80"}, "a delivery id is a text of at most 200 characters"),
    ],
)
async def test_what_cannot_cross_temporal_is_invalid_and_not_sent(
    name: str, key: str, value: Any, options: dict[str, Any], reason: str, idle: Stage
) -> None:
    # Nobody is there: whatever was sent would be `not_found`.
    refused = await idle.harness.signal("nobody", name, key, value, **options)

    assert told(refused) == ("invalid", reason)


async def test_value_that_its_token_cannot_dump_is_invalid_and_not_sent(idle: Stage) -> None:
    token: Signal[Any] = Signal("app.strict", 1, Verdict)

    refused = await idle.harness.signal("nobody", token, "k", {"status": 1})

    assert told(refused) == ("invalid", "status: Input should be a valid string")


@pytest.mark.parametrize("task_id", ["nobody", "", "x" * 1_001, "\udc80", "a\nb"])
async def test_id_that_nothing_has_is_not_found(task_id: str, idle: Stage) -> None:
    assert (await idle.harness.signal(task_id, NAME, "done", PASSED)).answer == "not_found"


async def test_conversations_and_runs_are_no_tasks_whether_a_worker_is_up_or_not(idle: Stage) -> None:
    async with idle.worker():
        task_id, submission = await parked(idle)
        generation_id = task_id.rpartition("/")[0]
        up = [await idle.harness.signal(id, NAME, "done", PASSED) for id in (submission.conversation_id, generation_id)]
    down = await idle.harness.signal(generation_id, NAME, "done", PASSED)

    assert [one.answer for one in (*up, down)] == ["not_found"] * 3
    assert down.reason == f"{generation_id} is no task that a signal could be delivered to"


async def test_without_a_worker_a_value_is_accepted_and_its_receipt_tells_later(idle: Stage) -> None:
    async with idle.worker():
        task_id, submission = await parked(idle)

    kept = await idle.harness.signal(task_id, CI_RESULT, "done", Verdict(status="passed"))
    second = await idle.harness.signal(task_id, NAME, "done", {"status": "failed"})
    wrong = await idle.harness.signal(task_id, NAME, "other", {"status": 1})
    async with idle.worker():
        receipts = [await idle.harness.receipt(task_id, one.delivery_id) for one in (kept, second, wrong)]
        answer = await submission.wait()
        afterwards = await idle.harness.receipt(task_id, kept.delivery_id)

    assert [told(one) for one in (kept, second, wrong)] == [("accepted", "")] * 3
    assert [told(one)[0] for one in receipts] == ["delivered", "duplicate", "invalid"]
    assert (answer.answer_text, afterwards) == ("thank you", receipts[0])


async def test_same_delivery_id_is_given_the_same_answer_by_either_road(idle: Stage) -> None:
    async with idle.worker():
        task_id, submission = await parked(idle)
    by_signal = await idle.harness.signal(task_id, NAME, "other", PASSED, delivery_id="d1")
    async with idle.worker():
        assert told(await idle.harness.receipt(task_id, "d1")) == ("delivered", "")
        by_update = await idle.harness.signal(task_id, NAME, "other", PASSED, delivery_id="d1")
        await idle.harness.signal(task_id, NAME, "done", PASSED, delivery_id="d2")
        await submission.wait()
        afterwards = [await idle.harness.signal(task_id, NAME, "other", PASSED, delivery_id=id) for id in ("d1", "d3")]

    assert (by_signal.answer, by_update.answer) == ("accepted", "delivered")
    assert [one.answer for one in afterwards] == ["delivered", "closed"]


async def test_repeats_at_one_time_store_one_value_and_agree(served: Stage) -> None:
    task_id, _ = await parked(served)

    results = await asyncio.gather(
        *(served.harness.signal(task_id, NAME, "other", PASSED, delivery_id="d1") for _ in range(5))
    )

    assert [told(one) for one in results] == [("delivered", "")] * 5
    receipts = (await served.harness.task(task_id)).receipts
    assert [(one.delivery_id, one.answer) for one in receipts] == [("d1", "delivered")]


async def test_one_event_may_be_for_several_keys_of_a_task(served: Stage) -> None:
    task_id, _ = await parked(served)

    results = [await served.harness.signal(task_id, NAME, key, PASSED, delivery_id="d1") for key in ("a", "b")]

    assert [one.answer for one in results] == ["delivered", "delivered"]
    receipts = (await served.harness.task(task_id)).receipts
    assert [(one.key, one.answer) for one in receipts] == [("a", "delivered"), ("b", "delivered")]


async def test_key_is_any_text_by_either_road(idle: Stage) -> None:
    keys = ["a/b", "a\nb", '"', "../x", "😀", " ", "k" * 5_000, "'; exit"]
    async with idle.worker():
        task_id, _ = await parked(idle)
        by_update = [await idle.harness.signal(task_id, NAME, f"u{key}", PASSED) for key in keys]
    by_signal = await asyncio.gather(*(idle.harness.signal(task_id, NAME, key, PASSED) for key in keys))
    async with idle.worker():
        receipts = [await idle.harness.receipt(task_id, one.delivery_id) for one in by_signal]

    assert [told(one) for one in by_update] == [("delivered", "")] * len(keys)
    assert [told(one) for one in by_signal] == [("accepted", "")] * len(keys)
    assert [told(one) for one in receipts] == [("delivered", "")] * len(keys)


async def test_largest_value_is_delivered_by_either_road(idle: Stage) -> None:
    large = {"status": "x" * (MAX_VALUE_BYTES - 13)}
    async with idle.worker():
        by_update, one = await parked(idle)
        by_signal, other = await parked(idle)
        delivered = await idle.harness.signal(by_update, NAME, "done", large)
        await one.wait()
    accepted = await idle.harness.signal(by_signal, NAME, "done", large)
    async with idle.worker():
        receipt = await idle.harness.receipt(by_signal, accepted.delivery_id)
        await other.wait()  # a run that asks its call for the value would keep a worker that stops for its whole grace

    assert (told(delivered), told(accepted), told(receipt)) == (("delivered", ""), ("accepted", ""), ("delivered", ""))


async def test_receipt_of_a_delivery_that_never_came_is_none(served: Stage) -> None:
    task_id, _ = await parked(served)

    began = asyncio.get_running_loop().time()
    assert await served.harness.receipt(task_id, "d9") is None
    assert asyncio.get_running_loop().time() - began >= VERDICT_PATIENCE.total_seconds()


async def test_receipts_and_views_say_that_no_worker_or_no_task_is_there(idle: Stage) -> None:
    async with idle.worker():
        task_id, submission = await parked(idle)
        for missing in ("nobody", submission.conversation_id):
            with pytest.raises(NoSuchTask, match=missing):
                await idle.harness.receipt(missing, "d1")
            with pytest.raises(NoSuchTask, match=missing):
                await idle.harness.task(missing)
    with pytest.raises(ServerUnavailable, match="no worker"):
        await idle.harness.receipt(task_id, "d1")
    with pytest.raises(ServerUnavailable, match="no worker"):
        await idle.harness.task(task_id)


async def test_view_says_what_a_call_waits_for_and_how_it_ended(served: Stage) -> None:
    task_id, submission = await parked(served)
    waiting = await served.harness.task(task_id)
    await served.harness.signal(task_id, NAME, "done", PASSED)
    await submission.wait()
    over = await served.harness.task(task_id)

    assert (waiting.state, waiting.tool, waiting.keys) == ("sleeping", "wait_for", (CI_RESULT.key("done"),))
    assert (waiting.ask and waiting.ask.text, waiting.until, waiting.receipts) == ("Did it pass?", None, ())
    assert (over.state, [one.answer for one in over.receipts]) == ("over", ["delivered"])


async def test_stopping_a_parked_call_needs_no_worker_and_says_whether_it_was_over(idle: Stage) -> None:
    async with idle.worker():
        task_id, submission = await parked(idle)
    first = await idle.harness.abort(task_id)
    async with idle.worker():
        answer = await submission.wait()
        again = await idle.harness.abort(task_id)
        closed = await idle.harness.signal(task_id, NAME, "done", PASSED)
        with pytest.raises(NoSuchTask, match="there is no nobody"):
            await idle.harness.abort("nobody")

    assert (first, again, closed.answer) == (True, False, "closed")
    assert (answer.status, answer.answer_text) == ("done", "thank you")


async def test_stopping_a_conversation_stops_its_run_and_it_lives_on(served: Stage) -> None:
    _, submission = await parked(served)

    assert await served.harness.abort(submission.conversation_id)

    assert (await submission.wait()).reason == "aborted"
    assert (await served.harness.conversation(submission.conversation_id).view()).open_generation is None


async def test_cancelling_a_delivery_sends_nothing_more(idle: Stage) -> None:
    async with idle.worker():
        task_id, submission = await parked(idle)
    under_way = asyncio.create_task(idle.harness.signal(task_id, NAME, "done", PASSED))

    async def has_come() -> bool:
        description = await idle.client.get_workflow_handle(task_id).describe()
        return description.raw_description.HasField("pending_workflow_task")

    await eventually(has_come)
    under_way.cancel()

    with pytest.raises(asyncio.CancelledError):
        await under_way
    assert "WORKFLOW_EXECUTION_SIGNALED" not in (await idle.histories(submission.conversation_id))[task_id]


@pytest.fixture
async def strict_server(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[EmbeddedServer]:
    """A server that takes one update and three signals in a run."""
    limits = ("history.maxTotalUpdates=1", "history.maximumSignalsPerExecution=3")
    monkeypatch.setattr(embedded, "DYNAMIC_CONFIG", (*embedded.DYNAMIC_CONFIG, *limits))
    async with EmbeddedServer() as running:
        yield running


async def test_quotas_of_a_run_take_the_other_road_and_then_say_so(
    strict_server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The road is taken for the quota's sake, not because the machine was busy.
    monkeypatch.setattr(signals, "ANSWER_PATIENCE", timedelta(seconds=20))
    async with stage(strict_server, app, tmp_path) as strict:
        # A parked call would turn over before: a running one cannot.
        task_id, submission = await running(strict)
        results = [await strict.harness.signal(task_id, NAME, f"k{n}", PASSED) for n in range(5)]
        receipts = [await strict.harness.receipt(task_id, one.delivery_id) for one in results[1:4]]
        assert await strict.harness.abort(task_id)
        await submission.wait()

    assert [one.answer for one in results] == ["delivered", "accepted", "accepted", "accepted", "invalid"]
    assert results[4].reason.startswith("task_full: exceeded workflow execution limit for signal events")
    assert [told(one) for one in receipts] == [("delivered", "")] * 3
