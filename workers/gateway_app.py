"""The gateway over HTTP: webhooks of declared sources, callback URLs, and what happens in conversations.

A request is read whole, its signature is checked over the bytes as they came, and only then it is parsed; nothing is
sent for one that does not pass.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_core import from_json
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from signals.tokens import value_problem
from tarry.seeing import metrics
from tarry.seeing.exporting import process_meter
from tarry.signed import BadToken, ExpiredToken
from tarry.webhooks import Event, WebhookSource
from tarry.webhooks.callbacks import read_token
from tarry.webhooks.signatures import NotSigned
from tarry.webhooks.sources import MAX_BODY
from workers.gateway_body import body_of
from workers.gateway_events import Streams
from workers.gateway_replies import Refused, Reply, refused
from workers.gateway_sending import Road, UnderWay, delivery_id_of
from workers.gateway_wake import Waking
from workers.inbox.routes import Inbox

_LOGGED = 200
"""Characters of a match or key in the log."""

LOG = logging.getLogger("tarry.gateway")

Facts = dict[str, object]
"""What the log says of a request besides its answer; never a secret, a token or a value."""


@dataclass(frozen=True)
class Door:
    """A source and its secrets."""

    source: WebhookSource
    secrets: tuple[str, ...]


class Gateway:
    """What happens to a request."""

    def __init__(
        self,
        road: Road,
        doors: Mapping[str, Door],
        callback_secrets: tuple[str, ...],
        streams: Streams,
        waking: Waking,
        inbox: Inbox | None = None,
    ) -> None:
        self.under_way = UnderWay()
        self._inbox = inbox
        self.streams = streams
        self._road = road
        self._waking = waking
        self._doors = doors
        self._callback_secrets = callback_secrets

    def app(self) -> Starlette:
        """The ASGI application."""
        app = Starlette(
            routes=[
                Route("/webhooks/{source}", _logged(self.webhook), methods=["POST"]),
                Route("/callbacks/{token}", _logged(self.callback), methods=["POST"]),
                Route("/conversations/{conversation}/events", self.streams.events, methods=["GET"]),
                Route("/wake", self._waking.wake, methods=["GET"]),
                Route("/healthz", _health, methods=["GET"]),
                *(self._inbox.routes() if self._inbox is not None else ()),
            ],
            exception_handlers={HTTPException: _http_error, Exception: _bug},
        )
        # Senders do not follow redirects, and a 3xx is no answer that says whether to send again.
        app.router.redirect_slashes = False
        return app

    def close(self) -> None:
        """End what has no end of its own: the streams of watchers."""
        self.streams.close()
        if self._inbox is not None:
            self._inbox.board.close()

    async def webhook(self, request: Request, facts: Facts) -> Reply:
        """`POST /webhooks/<source>`."""
        door = self._doors.get(request.path_params["source"])
        if door is None:
            raise refused(404, "there is no such source")
        source = door.source
        facts["source"] = source.name
        body = await body_of(request, source.max_bytes)
        headers = dict(request.headers)
        try:
            own_id = source.signature.verify(body, headers, door.secrets, datetime.now(UTC))
        except NotSigned as error:
            raise refused(401, str(error)) from None
        delivery_id = delivery_id_of(source.name, own_id, body)
        event = _event(source, _parsed(body), headers, delivery_id)
        if event is None:
            return Reply("ignored", "it tells of nothing to wait for", delivery_id)
        facts["match"] = event.match[:_LOGGED]
        return await self.under_way.answer(delivery_id, lambda: self._road.to_whom_expects(source, event, delivery_id))

    async def callback(self, request: Request, facts: Facts) -> Reply:
        """`POST /callbacks/<token>`."""
        try:
            target = read_token(request.path_params["token"], self._callback_secrets, datetime.now(UTC))
        except BadToken:
            raise refused(404, "there is no such callback") from None
        except ExpiredToken:
            raise refused(401, "this callback URL has expired") from None
        facts.update(task=target.task_id, signal=target.signal, key=target.key[:_LOGGED])
        body = await body_of(request, MAX_BODY)
        delivery_id = delivery_id_of(f"callback/{target.model_dump_json()}", "", body)
        value = _parsed(body)
        if (problem := value_problem(value)) is not None:
            raise Refused(Reply("invalid", problem, delivery_id))
        return await self.under_way.answer(delivery_id, lambda: self._road.to_task(target, value, delivery_id))


def _parsed(body: bytes) -> Any:
    try:
        return from_json(body, allow_inf_nan=False)
    except ValueError as error:
        raise refused(400, f"the body is not JSON: {error}") from None


def _event(source: WebhookSource, body: Any, headers: Mapping[str, str], delivery_id: str) -> Event | None:
    try:
        return source.read(body, headers)
    # The application's own code, at outside data.
    except Exception as error:
        LOG.warning("source %s cannot read webhook %s", source.name, delivery_id, exc_info=error)
        raise Refused(Reply("invalid", f"the webhook cannot be read: {type(error).__name__}", delivery_id)) from None


def _logged(handle: Callable[[Request, Facts], Awaitable[Reply]]) -> Callable[[Request], Awaitable[Response]]:
    """One line a request, and each refusal as a reply."""

    async def handled(request: Request) -> Response:
        begun = time.monotonic()
        facts: Facts = {}
        try:
            reply = await handle(request, facts)
        except Refused as error:
            reply = error.reply
        spent = round((time.monotonic() - begun) * 1_000)
        said = {"answer": reply.answer, "reason": reply.reason, "delivery_id": reply.delivery_id}
        came_by = facts.get("source") or ("callback" if "task" in facts else "")
        metrics.count(process_meter(), metrics.WEBHOOKS, source=str(came_by), answer=reply.answer)
        LOG.info(json.dumps({"status": reply.code, **facts, **said, "ms": spent}))
        return reply.response()

    return handled


async def _health(_: Request) -> Response:
    return JSONResponse({"status": "ok"})


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    response = Reply("refused", error.detail, status=error.status_code).response()
    response.headers.update(error.headers or {})
    return response


async def _bug(_: Request, __: Exception) -> Response:
    return Reply("unavailable", "an error of the gateway", status=500).response()
