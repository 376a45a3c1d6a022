"""An inbox inside the test process, people who are signed in to it, and calls that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

from playwright.async_api import Browser, Page
from pydantic import SecretStr
from temporalio.client import Client

from tarry.app import App
from tests.support.gateways import gateway_settings
from tests.support.stage import Stage
from workers.gateway import Server, build_gateway, listen, url_of

TOKENS = {"Ana": "a" * 32, "Ben": "b" * 32}
OPEN: dict[str, Any] = {"inbox_tokens": SecretStr(" ".join(f"{name}={token}" for name, token in TOKENS.items()))}
PATIENCE_MS = 60_000


@dataclass
class Desk:
    """An inbox at its address."""

    url: str
    chromium: Browser

    @contextlib.asynccontextmanager
    async def visitor(self, **options: Any) -> AsyncIterator[Page]:
        """A browser of somebody who is not signed in. `options`: of playwright's context."""
        context = await self.chromium.new_context(base_url=self.url, locale="en-GB", **options)
        context.set_default_timeout(PATIENCE_MS)
        try:
            yield await context.new_page()
        finally:
            await context.close()

    @contextlib.asynccontextmanager
    async def person(self, name: str = "Ana", **options: Any) -> AsyncIterator[Page]:
        """A browser of somebody who has signed in with their token, at the inbox."""
        async with self.visitor(**options) as page:
            await page.goto("/inbox")
            await page.get_by_label("Token").fill(TOKENS[name])
            await page.get_by_role("button", name="Sign in").click()
            await page.get_by_role("button", name="Sign out").wait_for()
            yield page


@contextlib.asynccontextmanager
async def serving(on: Stage, app: App | None = None, client: Client | None = None, **chosen: Any) -> AsyncIterator[str]:
    """A gateway with an inbox for the stage's application; the address. `chosen`: more settings."""
    settings = gateway_settings(on).model_copy(update=OPEN | chosen)
    server = Server(build_gateway(client or on.client, {}, settings, app or on.app))
    listening = listen(settings.gateway_host, 0)
    running = asyncio.create_task(server.serve([listening]))
    try:
        yield url_of(listening)
    finally:
        server.should_exit = True
        await running


@contextlib.asynccontextmanager
async def desk(on: Stage, chromium: Browser, **chosen: Any) -> AsyncIterator[Desk]:
    """An inbox and a browser for it."""
    async with serving(on, **chosen) as url:
        yield Desk(url, chromium)
