"""A model behind OpenAI's API, or behind any server that speaks it.

One request per `respond`; the library's own retries are off, since retries are durable and belong to the
generation (spec §6.3).
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from asyncio import AbstractEventLoop
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from ssl import SSLContext
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx2
from openai import AsyncOpenAI, AsyncStream, DefaultAsyncHttpx2Client, OpenAIError

from tarry.core.agent import ThinkingLevel
from tarry.core.text import clean_json
from tarry.models import ModelError, ModelInfo, ModelRequest, ModelResponse
from tarry.models.openai_answer import Answer, OnText
from tarry.models.openai_chat import CHAT_PATH, ChatAnswer, chat_body
from tarry.models.openai_errors import CAUGHT, for_people, model_error
from tarry.models.openai_responses import RESPONSES_PATH, ResponsesAnswer, responses_body

CONNECT_TIMEOUT = 10.0
"""Seconds to reach the server."""

EPILOGUE = 5.0
"""Seconds a stream may take to end once the answer is complete (usage comes last)."""

_NO_KEY = "no API key: set OPENAI_API_KEY (any text for a server without keys)"
_CHECK_URL = "check OPENAI_BASE_URL"
_NO_URL = f"the base URL is not http(s)://host[:port]/path: {_CHECK_URL}"
_MAX_PORT = 65_535


@dataclass(frozen=True)
class _Endpoint:
    path: str
    body: Callable[[ModelRequest], dict[str, Any]]
    answer: Callable[[OnText], Answer]
    thinking: Callable[[ThinkingLevel], dict[str, Any]]


_ENDPOINTS = {
    "chat": _Endpoint(CHAT_PATH, chat_body, ChatAnswer, lambda level: {"reasoning_effort": level}),
    "responses": _Endpoint(
        RESPONSES_PATH, responses_body, ResponsesAnswer, lambda level: {"reasoning": {"effort": level}}
    ),
}
_THINKING: tuple[ThinkingLevel, ...] = ("low", "medium", "high")
"""What OpenAI's thinking models take, all of them."""


class OpenAIModel:
    """A `Model` over the `openai` package.

    It may be built anywhere and shared: the HTTP client comes with the first request of an event loop
    and no conversation state is held.

    Args:
        model: as the server calls it.
        api: chat completions, which nearly every server speaks, or OpenAI's newer responses.
        base_url: of the server; `OPENAI_BASE_URL`, else OpenAI, when None.
        api_key: `OPENAI_API_KEY` when None. A server that needs no key takes any.
        extra_body: fields for every request (`temperature`, `reasoning_effort`, …). They win over the
            adapter's own; None takes a field out (`stream_options` for a server that refuses it).
        info: what the model takes and costs. Only OpenAI itself is known to enforce the form of an answer: say
            `structured=True` of another server that does, else the model is told the form in words. A thinking level
            is clipped to the levels it names, or, when it names none, to low, medium and high; with `off` the field is
            left out, and the model thinks as it does by default.

    Raises:
        TypeError: `extra_body` is not JSON data.
    """

    def __init__(
        self,
        model: str,
        *,
        api: Literal["chat", "responses"] = "chat",
        base_url: str | None = None,
        api_key: str | None = None,
        extra_body: Mapping[str, Any] | None = None,
        info: ModelInfo | None = None,
    ) -> None:
        self.info = info or ModelInfo()
        if self.info.structured is None:
            self.info = self.info.model_copy(update={"structured": _is_openai(base_url)})
        self._model = model
        self._endpoint = _ENDPOINTS[api]
        self._base_url = base_url
        self._api_key = api_key
        self._extra_body: dict[str, Any] = clean_json(dict(extra_body or {}))
        self._clients: dict[AbstractEventLoop, AsyncOpenAI] = {}

    @property
    def name(self) -> str:
        """`openai/<model>`."""
        return f"openai/{self._model}"

    async def respond(self, request: ModelRequest, on_text: OnText) -> ModelResponse:
        """Send one request and return the whole response; call `on_text` with each piece of text.

        Cancelling it closes the stream. An answer that is complete counts, whatever happens to the
        connection after it.

        Raises:
            ModelError: no response, or only a part of one; a missing key or an unusable base URL is
                permanent. Its text is one short line and never holds the key.
        """
        client = self._client()
        answer = self._endpoint.answer(on_text)
        try:
            await self._listen(client, request, answer)
            return answer.response()
        except ModelError as error:
            if answer.is_complete:
                return answer.response()
            text = for_people(error.text, client.api_key)
            raise ModelError(
                text, error.kind, retry_after=error.retry_after, partial=answer.text, usage=answer.told
            ) from None

    async def aclose(self) -> None:
        """Close the connections that this event loop opened; the next request opens new ones."""
        client = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await client.close()

    async def _listen(self, client: AsyncOpenAI, request: ModelRequest, answer: Answer) -> None:
        epilogue = asyncio.timeout(None)
        try:
            async with epilogue, aclosing(self._events(client, request)) as events:
                async for event in events:
                    answer.take(event)
                    if answer.is_complete and epilogue.when() is None:
                        wait = min(EPILOGUE, request.idle_timeout)
                        epilogue.reschedule(asyncio.get_running_loop().time() + wait)
        except TimeoutError:
            if not epilogue.expired():
                raise

    async def _events(self, client: AsyncOpenAI, request: ModelRequest) -> AsyncGenerator[object]:
        """The events of the stream.

        The limit is on silence, by bytes, so that a slow stream lives as long as it sends anything.
        """
        host = client.base_url.netloc.decode()
        try:
            stream = await client.post(
                self._endpoint.path,
                cast_to=object,
                body=self._body(client, request),
                options={"timeout": httpx2.Timeout(request.idle_timeout, connect=CONNECT_TIMEOUT)},
                stream=True,
                stream_cls=AsyncStream[object],
            )
            is_silent = True
            async with stream:
                async for event in stream:
                    is_silent = False
                    yield event
            if is_silent:
                _check_is_stream(stream.response, host)
        except CAUGHT as error:
            raise model_error(error, host, request.idle_timeout, datetime.now(UTC)) from None

    def _body(self, client: AsyncOpenAI, request: ModelRequest) -> dict[str, Any]:
        body = {"model": self._model, **self._endpoint.body(request)}
        level = self.info.thinks(request.thinking, otherwise=_THINKING)
        if level != "off":
            body |= self._endpoint.thinking(level)
        # Others refuse fields they do not know.
        if client.base_url.host.endswith("api.openai.com"):
            body["prompt_cache_key"] = hashlib.sha256(request.session_id.encode("utf-8", "replace")).hexdigest()
        body.update(self._extra_body)
        clean: dict[str, Any] = clean_json({name: value for name, value in body.items() if value is not None})
        return clean

    def _client(self) -> AsyncOpenAI:
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            for other in list(self._clients):
                if other.is_closed():
                    self._clients.pop(other, None)
            client = self._clients[loop] = self._connect()
        return client

    def _connect(self) -> AsyncOpenAI:
        # The library's own HTTP client closes itself when collected, on whichever loop runs by then.
        http_client = DefaultAsyncHttpx2Client(verify=_certificates())
        try:
            client = AsyncOpenAI(api_key=self._api_key, base_url=self._base_url, max_retries=0, http_client=http_client)
        except OpenAIError:
            raise ModelError(_NO_KEY, "permanent") from None
        except httpx2.InvalidURL:
            raise ModelError(_NO_URL, "permanent") from None
        if not client.api_key:
            raise ModelError(_NO_KEY, "permanent")
        if not _is_usable(client.base_url):
            raise ModelError(_NO_URL, "permanent")
        return client


def _is_openai(base_url: str | None) -> bool:
    """Whether it is OpenAI itself, and nothing that only resembles it."""
    url = base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com"
    return (urlsplit(url).hostname or "").endswith("api.openai.com")


@cache
def _certificates() -> SSLContext:
    """The trusted certificates. Loading them holds the event loop for 40 ms, so it is done once."""
    return httpx2.create_ssl_context()


def _is_usable(url: httpx2.URL) -> bool:
    return url.scheme in ("http", "https") and bool(url.host) and (url.port or 0) <= _MAX_PORT


def _check_is_stream(response: httpx2.Response, host: str) -> None:
    kind = response.headers.get("content-type", "")
    if not kind.startswith("text/event-stream"):
        raise ModelError(f"{host} answered with {kind or 'nothing'}, not with a stream: {_CHECK_URL}", "permanent")
