"""Two tenants on one server: nothing of the one is seen, read or answered by the other (spec §25.5)."""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest

from tarry.client import WakePlan
from tarry.codec import MissingKey
from tarry.embedded import EmbeddedServer
from tarry.store import BlobStore, StoreError
from tarry.webhooks import callback_url
from tests.support.gateways import GATEWAY_URL, expecting, gateway, parked
from tests.support.keys import VARIABLES, codec
from tests.support.stage import Stage
from tests.support.tenants import tenant
from tests.support.waiting import eventually
from tests.support.webhook_app import CiResult, Report, waiting

DONE = CiResult.key("done")
SECRETS = {"red": "r" * 32, "blue": "b" * 32}
PASSED = json.dumps({"status": "passed"}).encode()
CONVERSATION = "orders"


@dataclass
class Tenants:
    """Two of them, on the same task queue, each with a key of its own."""

    red: Stage
    blue: Stage


@pytest.fixture
async def two(server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tenants:
    """Prepared, with no worker yet."""
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    nonce = uuid.uuid4().hex[:8]
    red, blue = [
        await tenant(
            server,
            f"{name}-{nonce}",
            waiting(),
            tmp_path / name,
            callback_secrets=SECRETS[name],
            gateway_url=GATEWAY_URL,
            **codec(key),
        )
        for name, key in (("red", "old"), ("blue", "new"))
    ]
    return Tenants(red, blue)


async def begun(on: Stage) -> str:
    """The id of the call that waits, in the conversation of the same id."""
    await on.harness.conversation(CONVERSATION).submit("test it")
    return await parked(on, CONVERSATION)


async def test_lists_questions_and_wake_know_their_own_tenant_alone(two: Tenants) -> None:
    async with two.red.worker(), two.blue.worker():
        task_id = await begun(two.red)
        await eventually(two.red.harness.wake, lambda plan: not plan.active)
        seen = [
            [item.id async for item in on.harness.work()]
            + [question.task_id for question in await on.harness.questions()]
            for on in (two.red, two.blue)
        ]
        plans = [await on.harness.wake() for on in (two.red, two.blue)]

    assert task_id in seen[0]
    assert seen[1] == []
    assert (plans[0].at is not None, plans[1]) == (True, WakePlan(active=False))


async def test_same_names_in_both_are_two_conversations(two: Tenants) -> None:
    async with two.red.worker(), two.blue.worker():
        tasks = [await begun(on) for on in (two.red, two.blue)]
        await two.red.harness.signal(tasks[0], CiResult, "done", Report(status="passed"))
        told = await eventually(
            two.red.harness.conversation(CONVERSATION).transcript, lambda entries: entries[-1].kind == "assistant"
        )
        other = await two.blue.harness.task(tasks[1])

    assert told[-1].message is not None
    assert (tasks[0] != tasks[1], other.state) == (True, "sleeping")


async def test_gateway_of_one_takes_no_callback_and_no_webhook_of_the_other(two: Tenants) -> None:
    async with (
        two.red.worker(),
        two.blue.worker(),
        gateway(two.blue, callback_secrets=two.blue.settings.callback_secrets) as sender,
    ):
        task_id = await begun(two.red)
        await expecting(two.red, "build-7", task_id, DONE)
        of_red = callback_url(two.red.settings, task_id, DONE).removeprefix(GATEWAY_URL)
        of_blue = callback_url(two.blue.settings, task_id, DONE).removeprefix(GATEWAY_URL)

        signed_by_red = await sender.post(of_red, PASSED)
        signed_by_blue = await sender.post(of_blue, PASSED)
        webhook = await sender.ci("build-7", "passed", "event-1")
        still = await two.red.harness.task(task_id)

    assert (signed_by_red.status, signed_by_red.answer) == (404, "refused")
    assert (signed_by_blue.status, signed_by_blue.answer) == (404, "not_found")
    assert (webhook.status, webhook.answer) == (202, "kept")
    assert still.state == "sleeping"


async def test_store_and_keys_of_one_open_nothing_of_the_other(two: Tenants) -> None:
    text = "x" * 100_000
    red, blue = (BlobStore(on.client.data_converter) for on in (two.red, two.blue))
    reference = await red.put(text)
    (payload,) = await two.red.client.data_converter.encode(["secret"])

    assert await red.get(reference, str) == text
    with pytest.raises(StoreError, match="is missing from the store"):
        await blue.get(reference, str)
    with pytest.raises(MissingKey):
        await two.blue.client.data_converter.decode([payload])
