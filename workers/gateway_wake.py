"""Whether workers are needed, over HTTP: `GET /wake`, for whatever scales them (docs/scaling.md).

However many ask, one look at a time goes to the server, and looking takes a tenth of the time at most.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from temporalio.client import Client

from tarry.client import ServerUnavailable, WakeCheck, WakePlan
from tarry.core.routing import DEFAULT, is_worker, queue_of
from workers.gateway_tokens import refusal_of, refused_json
from workers.looking import Looks

AHEAD = 30
"""Seconds before a deadline in which workers are needed already, unless the request says how many."""

_LONGEST_AHEAD = 3_600
_MOST = 20
"""Kinds of workers that are looked after."""


class Waking:
    """The looks of one gateway."""

    def __init__(self, client: Client, task_queue: str, tokens: tuple[str, ...]) -> None:
        self._client = client
        self._task_queue = task_queue
        self._tokens = tokens
        self._looks: dict[str, Looks[WakePlan]] = {}

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
            plan = await self._looks.setdefault(serves, self._looks_for(serves)).newest()
        except ServerUnavailable:
            return refused_json(503, "Temporal does not answer")
        is_near = plan.at is not None and plan.at - timedelta(seconds=int(ahead)) <= datetime.now(UTC)
        facts = {"workers": int(plan.active or is_near), "task_queue": queue_of(self._task_queue, _special(serves))}
        return JSONResponse(plan.model_dump(mode="json") | facts, headers={"Cache-Control": "no-store"})

    def _looks_for(self, serves: str) -> Looks[WakePlan]:
        """Those for one kind of worker."""
        return Looks(WakeCheck(self._client, self._task_queue, (serves,)).look)


def _special(serves: str) -> str:
    return "" if serves == DEFAULT else serves
