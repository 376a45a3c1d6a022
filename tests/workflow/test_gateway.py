"""Webhooks and callbacks over real HTTP, to calls that are really parked."""

from __future__ import annotations

import asyncio
import uuid
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tarry.client import Submission
from tarry.core.waiting import RECEIPTS
from tarry.embedded import EmbeddedServer
from tarry.testing import call
from tests.support.gateways import CALLBACK_SECRETS, GATEWAY_URL, Answered, callback_path, expecting, gateway, parked
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually
from tests.support.webhook_app import CiResult, app, calling, waiting

DONE = CiResult.key("done")
PASSED = b'{"status": "passed"}'
CALLBACKS = {"callback_secrets": CALLBACK_SECRETS, "gateway_url": GATEWAY_URL}
KEYS = ["a/b", "a\nb", '"', "../x", "😀", " ", "k" * 5_000, "?a=b&c#d%2F"]


async def begun(on: Stage) -> tuple[Submission, str]:
    """A conversation whose call is parked, and the call's id."""
    submission = await on.harness.conversation().submit("test it")
    return submission, await parked(on, submission.conversation_id)


async def answer(submission: Submission) -> str | None:
    return (await submission.wait()).answer_text


def told(*answers: Answered) -> list[tuple[int, str]]:
    return [(one.status, one.answer) for one in answers]


async def receipts(on: Stage, task_id: str) -> list[tuple[str, str]]:
    known = await on.client.get_workflow_handle(task_id).query(RECEIPTS)
    return [(one["answer"], one["delivery_id"]) for one in known]


async def passed(*deadlines: datetime | None) -> bool:
    return all(deadline is not None and deadline < datetime.now(UTC) for deadline in deadlines)


def new_match() -> str:
    return uuid.uuid4().hex


async def test_a_signed_webhook_wakes_the_call_that_expects_it(server: EmbeddedServer, tmp_path: Path) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission, task_id = await begun(on)
        match = new_match()
        await expecting(on, match, task_id, DONE)

        answered = await sender.ci(match, "passed", "event-1")

        assert told(answered) == [(200, "delivered")]
        assert await answer(submission) == "CI passed"


async def test_same_webhook_delivered_twice_is_one_delivery_with_one_answer(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission, task_id = await begun(on)
        match = new_match()
        await expecting(on, match, task_id, DONE)

        twice = await asyncio.gather(*(sender.ci(match, "passed", "event-1") for _ in range(2)))
        assert await answer(submission) == "CI passed"
        afterwards = [await sender.ci(match, "passed", "event-1"), await sender.ci(match, "failed", "event-2")]

        assert told(*twice) == [(200, "delivered")] * 2
        assert told(*afterwards) == [(200, "delivered"), (410, "closed")]
        assert await receipts(on, task_id) == [("delivered", twice[0].delivery_id)]


async def test_a_second_webhook_for_a_key_that_holds_a_value_is_a_duplicate(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission, task_id = await begun(on)
        match = new_match()
        await expecting(on, match, task_id, CiResult.key("other"))

        answers = [
            await sender.ci(match, "passed", "event-1"),
            await sender.ci(match, "failed", "event-2"),
            await sender.ci(match, "passed", "event-1"),
        ]

        assert told(*answers) == [(200, "delivered"), (200, "duplicate"), (200, "delivered")]
        assert await receipts(on, task_id) == [("delivered", answers[0].delivery_id)]
        await sender.post(callback_path(on, task_id, DONE), PASSED)
        assert await answer(submission) == "CI passed"


@pytest.mark.parametrize("states", [["passed", "in_progress", "queued"], ["in_progress", "passed"]])
async def test_older_states_that_come_late_change_nothing(
    server: EmbeddedServer, tmp_path: Path, states: list[str]
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission, task_id = await begun(on)
        match = new_match()
        await expecting(on, match, task_id, DONE)

        answers = [await sender.ci(match, state, f"event-{state}") for state in states]

        expected = {"passed": (200, "delivered"), "in_progress": (200, "ignored"), "queued": (200, "ignored")}
        assert told(*answers) == [expected[state] for state in states]
        assert await answer(submission) == "CI passed"


async def test_callback_for_a_call_that_ended_or_never_was_has_a_final_answer(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission, task_id = await begun(on)
        match = new_match()
        await expecting(on, match, task_id, DONE)
        path = callback_path(on, task_id, DONE)
        await sender.post(path, PASSED)
        await answer(submission)
        unused = callback_path(on, f"{submission.conversation_id}~none/g1/t1.0", DONE)

        late = [await sender.ci(match, "passed"), await sender.post(path, b'{"status": "failed"}')]
        unknown = [await sender.ci(new_match(), "passed", source="strict"), await sender.post(unused, PASSED)]

        assert told(*late) == [(410, "closed")] * 2
        assert told(*unknown) == [(404, "not_found")] * 2


async def test_an_old_callback_does_not_reach_a_new_conversation_of_the_same_id(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission, old = await begun(on)
        path = callback_path(on, old, DONE)
        await sender.post(path, PASSED)
        await answer(submission)
        await on.client.get_workflow_handle(submission.conversation_id).terminate()
        again = await on.harness.conversation(submission.conversation_id).submit("once more")
        new = await parked(on, submission.conversation_id)

        answered = await sender.post(path, b'{"status": "failed"}')

        assert told(answered) == [(410, "closed")]
        assert await receipts(on, new) == []
        await sender.post(callback_path(on, new, DONE), PASSED)
        assert await answer(again) == "CI passed"


async def test_a_webhook_that_comes_before_anybody_expects_it_is_kept_and_delivered(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        match = new_match()
        early = [await sender.ci(match, "passed", "event-1") for _ in range(2)]
        submission, task_id = await begun(on)

        await expecting(on, match, task_id, DONE)

        assert told(*early) == [(202, "kept")] * 2
        assert await answer(submission) == "CI passed"
        assert told(await sender.ci(match, "passed", "event-2")) == [(410, "closed")]


async def test_a_tool_that_expects_what_came_before_it_parks_and_wakes_at_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    match = new_match()
    async with stage(server, calling(call("build", match=match)), tmp_path, **CALLBACKS) as on, gateway(on) as sender:
        early = await sender.ci(match, "passed", "event-1")
        submission = await on.harness.conversation().submit("test it")

        assert told(early) == [(202, "kept")]
        assert await answer(submission) == "CI passed"
        assert told(await sender.ci(match, "failed", "event-2")) == [(410, "closed")]


async def test_a_tool_hands_out_the_url_at_which_its_own_call_is_woken(server: EmbeddedServer, tmp_path: Path) -> None:
    app = calling(call("build", match=new_match()))
    async with stage(server, app, tmp_path, **CALLBACKS) as on, gateway(on) as sender:
        submission, task_id = await begun(on)
        ask = (await on.harness.task(task_id)).ask
        assert ask is not None

        answered = await sender.post(ask.text.removeprefix(CALLBACKS["gateway_url"]), PASSED)

        assert told(answered) == [(200, "delivered")]
        assert ask.text == CALLBACKS["gateway_url"] + callback_path(on, task_id, DONE)
        assert await answer(submission) == "CI passed"


async def test_with_no_worker_up_the_server_keeps_the_webhook_and_the_call_wakes_later(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, app, tmp_path) as on, gateway(on) as sender:
        async with on.worker():
            submission, task_id = await begun(on)
            match = new_match()
            await expecting(on, match, task_id, DONE)

        answers = [
            await sender.ci(match, "passed", "event-1"),
            await sender.post(callback_path(on, task_id, DONE), PASSED),
        ]

        assert told(*answers) == [(202, "accepted")] * 2
        async with on.worker():
            assert await answer(submission) == "CI passed"
            first, second = answers
            assert await receipts(on, task_id) == [("delivered", first.delivery_id), ("duplicate", second.delivery_id)]


async def test_with_no_worker_up_the_deadline_goes_by_when_the_webhook_came(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, waiting(seconds=8), tmp_path) as on, gateway(on) as sender:
        async with on.worker():
            calls = [await begun(on), await begun(on)]
            matches = [new_match(), new_match()]
            for (_, task_id), match in zip(calls, matches, strict=True):
                await expecting(on, match, task_id, DONE)
            deadlines = [(await on.harness.task(task_id)).until for _, task_id in calls]

        in_time = await sender.ci(matches[0], "passed")
        await eventually(lambda: passed(*deadlines))
        too_late = await sender.ci(matches[1], "passed")

        async with on.worker():
            assert [await answer(submission) for submission, _ in calls] == ["CI passed", "CI never reported"]
            assert told(in_time, too_late) == [(202, "accepted")] * 2
            assert await receipts(on, calls[0][1]) == [("delivered", in_time.delivery_id)]
            assert await receipts(on, calls[1][1]) == [("closed", too_late.delivery_id)]


@pytest.mark.parametrize("key", KEYS)
async def test_a_callback_url_wakes_a_call_whatever_characters_its_key_has(
    server: EmbeddedServer, tmp_path: Path, key: str
) -> None:
    async with stage(server, waiting(key), tmp_path) as on, gateway(on) as sender:
        submission, task_id = await begun(on)

        answered = await sender.post(callback_path(on, task_id, CiResult.key(key)), PASSED)

        assert told(answered) == [(200, "delivered")]
        assert await answer(submission) == "CI passed"


async def test_a_value_that_the_signal_refuses_is_final_and_leaves_the_key_open(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with stage(server, app, tmp_path) as on, gateway(on) as sender:
        submission, task_id = await begun(on)
        match = new_match()
        await expecting(on, match, task_id, DONE)

        refused = [await sender.ci(match, "exploded"), await sender.post(callback_path(on, task_id, DONE), b'"passed"')]

        assert told(*refused) == [(422, "invalid")] * 2
        assert "status" in refused[0].reason
        assert told(await sender.ci(match, "passed")) == [(200, "delivered")]
        assert await answer(submission) == "CI passed"
