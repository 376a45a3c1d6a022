"""The inbox as it changes, by server-sent events: `GET /inbox/events` (spec §23.1).

An event says that the list is another one, or the page old, and how many questions wait; the page then fetches itself.
A page of one question names its task (`?task=…`), and is told what that asks.
All watchers of a gateway share the looks of one board.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator

from sse_starlette import EventSourceResponse, ServerSentEvent
from starlette.responses import Response

from workers.gateway_tokens import refused_json
from workers.inbox import sessions
from workers.inbox.board import Board, Standing
from workers.inbox.pages import HEADERS
from workers.inbox.showing import question_version
from workers.inbox.visitors import Visit

MAX_WATCHERS = 500
PING_SECONDS = 15
SEND_PATIENCE = 30.0
RETRY_MS = 2_000
LONGEST = 900.0
"""Seconds, after which a browser comes back and is asked again who it is."""


def version_of(standing: Standing) -> str:
    """Of the page that shows it: another one also once the tokens of its forms are to be renewed.

    Every watch ends before long and tells this anew when it comes back, so no page misses it.
    """
    return f"{standing.version}.{int(time.time() // sessions.RENEWED_SECONDS)}"


class Watching:
    """All watchers of one inbox."""

    def __init__(self, board: Board) -> None:
        self._board = board

    async def events(self, visit: Visit) -> Response:
        """The stream, for who is signed in."""
        if not visit.person:
            return refused_json(401, "sign in first", HEADERS)
        if self._board.watched >= MAX_WATCHERS:
            return refused_json(503, f"{MAX_WATCHERS} watch already", {**HEADERS, "Retry-After": "5"})
        headers = {**HEADERS, "X-Accel-Buffering": "no"}
        told = self._told(visit.query.get("task", ""))
        return EventSourceResponse(told, ping=PING_SECONDS, send_timeout=SEND_PATIENCE, headers=headers)

    async def _told(self, task_id: str) -> AsyncIterator[ServerSentEvent]:
        until = asyncio.get_running_loop().time() + LONGEST
        async with contextlib.aclosing(self._board.changes()) as changes:
            while True:
                try:
                    async with asyncio.timeout_at(until):
                        standing = await anext(changes)
                except (TimeoutError, StopAsyncIteration):
                    return
                asked = sum(1 for one in standing.parked if one.question)
                question = next((question_version(one) for one in standing.parked if one.task_id == task_id), "")
                data = json.dumps({"version": version_of(standing), "asked": asked, "question": question})
                yield ServerSentEvent(data, event="standing", retry=RETRY_MS)
