"""Whether workers are needed, over HTTP: `GET /wake`, for whatever scales them (docs/scaling.md).

However many ask, one look at a time goes to the server, and looking takes a tenth of the time at most.
"""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from temporalio.client import Client

from tarry.client import ServerUnavailable, WakeCheck, WakePlan
from tarry.core.routing import DEFAULT, is_worker, queue_of
from workers.gateway_tokens import refusal_of, refused_json

AHEAD = 30
"""Seconds before a deadline in which workers are needed already, unless the request says how many."""

_LONGEST_AHEAD = 3_600
_MOST = 20
"""Kinds of workers that are looked after."""
_FRESH = 1.0
_LOAD = 0.1


class Waking:
    """The looks of one gateway."""

    def __init__(self, client: Client, task_queue: str, tokens: tuple[str, ...]) -> None:
        self._client = client
        self._task_queue = task_queue
        self._tokens = tokens
        self._looks: dict[str, _Looks] = {}

    async def wake(self, request: Request) -> Response:
        """`GET /wake?ahead=<seconds>`: the plan, and `workers`: 1 when they are needed by then, else 0.

        With `&serves=<name>` that of the workers of a name.
        """
        if (refusal := refusal_of(request, self._tokens)) is not None:
            return refusal
        ahead = request.query_params.get("ahead", str(AHEAD))
        if not (ahead.isascii() and ahead.isdecimal() and len(ahead) <= 4 and int(ahead) <= _LONGEST_AHEAD):
            return refused_json(400, f"ahead is a whole number of seconds from 0 to {_LONGEST_AHEAD}")
        serves = request.query_params.get("serves", DEFAULT)
        if serves not in self._looks and (len(self._looks) >= _MOST or not is_worker(serves)):
            return refused_json(400, f"serves is the name of a worker, of at most {_MOST} different ones")
        try:
            plan = await self._looks.setdefault(serves, _Looks(self._client, self._task_queue, serves)).plan()
        except ServerUnavailable:
            return refused_json(503, "Temporal does not answer")
        is_near = plan.at is not None and plan.at - timedelta(seconds=int(ahead)) <= datetime.now(UTC)
        facts = {"workers": int(plan.active or is_near), "task_queue": queue_of(self._task_queue, _special(serves))}
        return JSONResponse(plan.model_dump(mode="json") | facts, headers={"Cache-Control": "no-store"})


class _Looks:
    """Those for one kind of worker."""

    def __init__(self, client: Client, task_queue: str, serves: str) -> None:
        self._check = WakeCheck(client, task_queue, (serves,))
        self._look: asyncio.Task[WakePlan] | None = None
        self._fresh_until = 0.0

    async def plan(self) -> WakePlan:
        """The newest plan.

        Raises:
            ServerUnavailable: no server answers.
        """
        if self._look is None or (self._look.done() and time.monotonic() >= self._fresh_until):
            self._look = asyncio.create_task(self._looked())
        # Who leaves takes the look from nobody else.
        return await asyncio.shield(self._look)

    async def _looked(self) -> WakePlan:
        began = time.monotonic()
        try:
            return await self._check.look()
        finally:
            ended = time.monotonic()
            self._fresh_until = ended + max(_FRESH, (ended - began) * (1 / _LOAD - 1))


def _special(serves: str) -> str:
    return "" if serves == DEFAULT else serves
