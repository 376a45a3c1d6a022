"""An inbox inside the test process, people who are signed in to it, and calls that wait for them."""

from __future__ import annotations

import asyncio
import contextlib
import html
import re
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import httpx
from playwright.async_api import Browser, Page
from pydantic import SecretStr
from temporalio.client import Client

from tarry.app import App
from tests.support.gateways import gateway_settings
from tests.support.stage import Stage
from workers.gateway import Server, build_gateway, listen, url_of

TOKENS = {"Ana": "a" * 32, "Ben": "b" * 32}
OPEN: dict[str, Any] = {"inbox_tokens": SecretStr(" ".join(f"{name}={token}" for name, token in TOKENS.items()))}
PROVEN = {"X-Tarry-Proxy-Secret": "p" * 32}
PROXY: dict[str, Any] = {
    "inbox_tokens": None,
    "inbox_user_header": "X-User",
    "inbox_proxy_secret": SecretStr(PROVEN["X-Tarry-Proxy-Secret"]),
}
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


@dataclass
class Caller:
    """A program that reads pages and sends forms, as a browser would or as somebody with worse intentions."""

    http: httpx.AsyncClient

    async def get(self, path: str = "/inbox", **headers: str) -> httpx.Response:
        """A page."""
        return await self.http.get(path, headers=headers)

    async def sign_in(self, name: str = "Ana") -> None:
        """Sign in with that person's token."""
        page = await self.get()
        answer = await self.post("/inbox/sign-in", token_of(page), {"token": TOKENS[name]})
        assert answer.status_code == 303

    async def post(
        self, path: str, form: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """A form with its token, sent from a page of the inbox unless `headers` say otherwise."""
        sent = {"Sec-Fetch-Site": "same-origin", "Origin": "null"} if headers is None else headers
        return await self.http.post(path, data={"form": form, **fields}, headers=sent)


def token_of(page: httpx.Response) -> str:
    """The token that stands in a page's forms."""
    [token, *_] = re.findall(r'name="form" value="([^"]+)"', page.text)
    return str(token)


def fields_of(page: httpx.Response) -> dict[str, str]:
    """What a page's form says of the question."""
    found = re.findall(r'<input type="hidden" name="(task|digest|since|signal|key)" value="([^"]*)"', page.text)
    return {name: html.unescape(value) for name, value in found}


@contextlib.asynccontextmanager
async def caller(on: Stage, **chosen: Any) -> AsyncIterator[Caller]:
    """An inbox, and a program that calls it."""
    async with (
        serving(on, **chosen) as url,
        httpx.AsyncClient(base_url=url, trust_env=False, timeout=PATIENCE_MS / 1_000) as http,
    ):
        yield Caller(http)
