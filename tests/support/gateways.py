"""A gateway inside the test process, over real HTTP, and senders that sign."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from temporalio.client import Client

from signals.tokens import SignalKey
from tarry.core.protocol import TOOL_CALL
from tarry.settings import Settings
from tarry.webhooks import callback_url, expect
from tests.support.stage import Stage
from tests.support.waiting import PATIENCE, eventually
from tests.support.webhook_app import SECRETS, TIMED
from workers.gateway import Server, build_gateway, doors_of, listen, url_of

CALLBACK_SECRETS = "c" * 32
GATEWAY_URL = "http://gateway.test"


@dataclass
class Answered:
    """An answer of the gateway."""

    status: int
    answer: str
    reason: str
    delivery_id: str


@dataclass
class Sender:
    """Whoever POSTs to a gateway."""

    http: httpx.AsyncClient

    async def post(self, path: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answered:
        """POST bytes as they are."""
        response = await self.http.post(path, content=body, headers=dict(headers or {}))
        return Answered(response.status_code, **response.json())

    async def ci(self, build: str, state: str, delivery: str = "", *, source: str = "ci") -> Answered:
        """A webhook as the CI service signs it."""
        body = json.dumps({"build": build, "state": state}).encode()
        return await self.post(f"/webhooks/{source}", body, signed(body, delivery))


def signed(body: bytes, delivery: str = "", *, secret: str = "new-secret-of-ci", age: int = 0) -> dict[str, str]:
    """The headers of a webhook of the CI service."""
    timestamp = int(time.time()) - age
    headers = {"X-CI-Timestamp": str(timestamp), "X-CI-Signature": TIMED.sign(body, secret, timestamp)}
    return headers | ({"X-CI-Delivery": delivery} if delivery else {})


@contextlib.asynccontextmanager
async def gateway(on: Stage, client: Client | None = None, **chosen: Any) -> AsyncIterator[Sender]:
    """A gateway for the stage's application, on a free port, and a sender to it. `chosen`: more settings."""
    settings = gateway_settings(on).model_copy(update=chosen)
    server = Server(build_gateway(client or on.client, doors_of(on.app, SECRETS), settings))
    listening = listen(settings.gateway_host, 0)
    url = url_of(listening)
    serving = asyncio.create_task(server.serve([listening]))
    try:
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE) as http:
            yield Sender(http)
    finally:
        server.should_exit = True
        await serving


def gateway_settings(on: Stage) -> Settings:
    """The stage's settings and those of callback URLs; such a URL's path is good at any gateway."""
    chosen: dict[str, Any] = {"callback_secrets": CALLBACK_SECRETS, "gateway_url": GATEWAY_URL}
    return Settings(**on.settings.model_dump(exclude_none=True) | chosen)


def callback_path(on: Stage, task_id: str, key: SignalKey) -> str:
    """The path of a callback URL."""
    return callback_url(gateway_settings(on), task_id, key).removeprefix(GATEWAY_URL)


async def expecting(on: Stage, match: str, task_id: str, key: SignalKey, source: str = "ci") -> None:
    """Expect webhooks of a source for a task."""
    await expect(on.client, source, match, task_id, key, task_queue=on.settings.task_queue)


async def parked(on: Stage, conversation_id: str) -> str:
    """The id of the conversation's only call that is parked, once it is."""
    query = f'TarryConversation = "{conversation_id}" AND WorkflowType = "{TOOL_CALL}" AND TarryState = "sleeping"'

    async def ids() -> list[str]:
        return [found.id async for found in on.client.list_workflows(query)]

    (task_id,) = await eventually(ids)
    return task_id
