"""What happens in a conversation, over HTTP: `GET /conversations/<id>/events`, as server-sent events (spec §7.9).

A stream begins with a snapshot, also when it is asked to go on after `Last-Event-ID`: nobody keeps what was missed. One
watcher serves all streams of a conversation, and nothing is kept here: any number of gateways may run.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from temporalio.client import Client
from temporalio.service import RPCError

from tarry.client.errors import NoSuchConversation
from tarry.client.watch import Listener, Watcher
from tarry.core.live_events import EVENTS
from tarry.entries import EntryCache, EntryReader
from tarry.store import BlobStore
from workers.gateway_tokens import refusal_of, refused_json

MAX_STREAMS = 500
"""Streams at a time; each may have 100 changes before it."""
PING_SECONDS = 15
SEND_PATIENCE = 30.0
"""Seconds in which a reader must take what it is sent."""
RETRY_MS = 2_000
"""After how long a browser comes back."""
_CACHE_BYTES = 16 * 1024 * 1024

LOG = logging.getLogger("tarry.gateway")


@dataclass
class _Upstream:
    """The watcher of a conversation, and how many streams it serves."""

    watcher: Watcher
    entering: asyncio.Task[Watcher]
    streams: int = 0


class _Stream(EventSourceResponse):
    """The answer that goes on; it gives its listener back however it ends, also before it began."""

    def __init__(self, listener: Listener, stack: contextlib.AsyncExitStack, ping_seconds: int) -> None:
        headers = {"X-Accel-Buffering": "no"}
        super().__init__(_told(listener), ping=ping_seconds, send_timeout=SEND_PATIENCE, headers=headers)
        self._stack = stack

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            await super().__call__(scope, receive, send)


async def _told(listener: Listener) -> AsyncIterator[ServerSentEvent]:
    """Each event under an id of its own."""
    stream, number = secrets.token_hex(4), 0
    async for change in listener:
        for event in change.events:
            number += 1
            data = EVENTS.dump_json(event).decode()
            yield ServerSentEvent(data, event=event.type, id=f"{stream}.{number}", retry=RETRY_MS)


class Streams:
    """All streams of a gateway."""

    def __init__(self, client: Client, tokens: tuple[str, ...], *, ping_seconds: int = PING_SECONDS) -> None:
        self._client = client
        self._reader = EntryReader(client, BlobStore(client.data_converter), EntryCache(_CACHE_BYTES))
        self._tokens = tokens
        self._ping_seconds = ping_seconds
        self._upstreams: dict[str, _Upstream] = {}
        self._listeners: set[Listener] = set()

    @property
    def watched(self) -> dict[str, int]:
        """How many streams there are of each conversation."""
        return {conversation_id: upstream.streams for conversation_id, upstream in self._upstreams.items()}

    def close(self) -> None:
        """End every stream; who reads it comes back to another gateway."""
        for listener in self._listeners:
            listener.end()

    async def events(self, request: Request) -> Response:
        """`GET /conversations/<id>/events`."""
        if (refusal := self._refusal(request)) is not None:
            return refusal
        conversation_id = request.path_params["conversation"]
        stack = contextlib.AsyncExitStack()
        try:
            listener = await stack.enter_async_context(self._listener(conversation_id))
        except NoSuchConversation:
            return refused_json(404, f"there is no conversation {conversation_id}")
        except RPCError:
            return refused_json(503, "Temporal does not answer")
        LOG.info("a stream of %s begins, %s in all", conversation_id, sum(self.watched.values()))
        return _Stream(listener, stack, self._ping_seconds)

    def _refusal(self, request: Request) -> Response | None:
        if (refusal := refusal_of(request, self._tokens)) is not None:
            return refusal
        if sum(self.watched.values()) >= MAX_STREAMS:
            return refused_json(503, f"{MAX_STREAMS} streams are open already", {"Retry-After": "5"})
        return None

    @contextlib.asynccontextmanager
    async def _listener(self, conversation_id: str) -> AsyncIterator[Listener]:
        """A listener at the conversation's watcher, which the first one starts and the last one ends."""
        upstream = self._upstreams.get(conversation_id)
        if upstream is None or upstream.watcher.is_over:
            watcher = Watcher(self._client, self._reader, conversation_id)
            upstream = _Upstream(watcher, asyncio.create_task(watcher.__aenter__()))
            self._upstreams[conversation_id] = upstream
        upstream.streams += 1
        try:
            # Who leaves while it starts takes it from nobody else.
            await asyncio.shield(upstream.entering)
            with upstream.watcher.listener() as listener:
                self._listeners.add(listener)
                try:
                    yield listener
                finally:
                    self._listeners.discard(listener)
        finally:
            upstream.streams -= 1
            if not upstream.streams:
                if self._upstreams.get(conversation_id) is upstream:
                    del self._upstreams[conversation_id]
                upstream.entering.cancel()
                upstream.watcher.stop()
