"""The inbox over HTTP (spec §23). Reading changes nothing: only a POST with the token of a page does."""

from __future__ import annotations

import logging
import time
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from temporalio.client import Client

from tarry.app import App
from tarry.client.exact import exact_arguments
from tarry.core.live import Question
from tarry.settings import Settings
from workers.gateway_sending import Road
from workers.inbox.answering import Answer, Answering
from workers.inbox.board import Board
from workers.inbox.door import SESSION_COOKIE, Door, door_of
from workers.inbox.listing import Listing
from workers.inbox.pages import HEADERS, static
from workers.inbox.receipts import STATUS, Told
from workers.inbox.sessions import SESSION_SECONDS
from workers.inbox.showing import Card, card
from workers.inbox.visitors import Refused, Visit, Visitors

LOG = logging.getLogger("tarry.inbox")


class Inbox:
    """What happens to a request of the inbox."""

    def __init__(self, client: Client, app: App, door: Door, road: Road, settings: Settings) -> None:
        self.board = Board(client, settings.task_queue)
        self._client = client
        self._app = app
        self._door = door
        self._visitors = Visitors(door, settings.gateway_url)
        self._answering = Answering(client, road)

    def routes(self) -> list[Route]:
        """Its addresses."""
        meet, signed_in = self._visitors.anybody, self._visitors.signed_in
        return [
            Route("/inbox", signed_in(self.inbox), methods=["GET"]),
            Route("/inbox/question", signed_in(self.question), methods=["GET"]),
            Route("/inbox/answer", signed_in(self.answer), methods=["POST"]),
            Route("/inbox/sign-in", meet(self.sign_in), methods=["POST"]),
            Route("/inbox/sign-out", meet(self.sign_out), methods=["POST"]),
            Route("/inbox/static/{name}", _static, methods=["GET"]),
        ]

    async def inbox(self, visit: Visit) -> Response:
        """`GET /inbox`: what waits, the most urgent first."""
        standing = await self.board.standing()
        now = datetime.now(UTC)
        cards = [card(one, now, self._app.redact) for one in standing.parked]
        listing = Listing.of(cards, visit.query)
        told = Told.read(self._door.sessions.unsealed(visit.query.get("told", "")))
        return visit.page("inbox.html", here="inbox", listing=listing, standing=standing, told=told)

    async def question(self, visit: Visit) -> Response:
        """`GET /inbox/question?task=…`: one question, with all that would run."""
        asked = await self._answering.asked(visit.query.get("task", ""))
        if asked is None:
            text = "It does not wait any more, or there is no such task."
            return visit.page("message.html", 404, title="Nothing is asked there", text=text)
        return visit.page("question.html", card=await self._whole(asked), told=None)

    async def answer(self, visit: Visit) -> Response:
        """`POST /inbox/answer`: decide, and be told what became of it."""
        form = visit.form
        asked = await self._answering.asked(form.get("task", ""))
        if asked is not None and not self._may_answer(visit.person, asked):
            raise Refused(403, "This question is not for you to answer. Nothing was sent.")
        told = await self._answering.send(_decision(visit))
        LOG.info("%s: answer of %s to %s", told.kind, visit.person, told.task_id)
        if told.kind in ("changed", "invalid") and asked is not None:
            return visit.page("question.html", STATUS[told.kind], card=await self._whole(asked), told=told)
        there = f"/inbox?{urlencode({'told': self._door.sessions.sealed(told.data)})}"
        return RedirectResponse(there, 303, HEADERS)

    async def sign_in(self, visit: Visit) -> Response:
        """`POST /inbox/sign-in` with a token."""
        begun = self._door.sessions.begin(visit.form.get("token", "").strip(), time.time())
        if begun is None:
            LOG.warning("somebody tried to sign in with a token that is nobody's")
            return self._visitors.sign_in_page(visit, "Nobody has that token.")
        person, session = begun
        LOG.info("%s signed in", person)
        response = RedirectResponse("/inbox", 303, HEADERS)
        self._visitors.set_cookie(visit.request, response, SESSION_COOKIE, session, SESSION_SECONDS)
        return response

    async def sign_out(self, visit: Visit) -> Response:
        """`POST /inbox/sign-out`."""
        response = RedirectResponse("/inbox", 303, HEADERS)
        response.delete_cookie(SESSION_COOKIE, path="/inbox", httponly=True, samesite="strict")
        return response

    async def _whole(self, asked: Question) -> Card:
        found = await exact_arguments(self._client, asked.task_id, asked.tool, asked.digest)
        return card(asked, datetime.now(UTC), self._app.redact, found)

    def _may_answer(self, person: str, question: Question) -> bool:
        try:
            return self._app.inbox.may_answer(person, question) is True
        except Exception:  # the application's code
            LOG.exception("the application could not say whether %s may answer", person)
            return False


def inbox_of(client: Client, app: App, road: Road, settings: Settings) -> Inbox | None:
    """The inbox of an application; None, and a line that says how to switch it on, where nobody could sign in."""
    door = door_of(settings, app.inbox.sign_in)
    if not door.is_open:
        LOG.info(
            "the inbox is off: set TARRY_INBOX_TOKENS, or TARRY_INBOX_USER_HEADER with TARRY_INBOX_PROXY_SECRET, "
            "or give the App an Inbox that signs people in"
        )
        return None
    return Inbox(client, app, door, road, settings)


def _decision(visit: Visit) -> Answer:
    form = visit.form
    choice, reason = form.get("choice"), form.get("reason", "").strip()
    if choice not in ("allow", "deny"):
        raise Refused(400, "Choose to allow or to deny. Nothing was sent.")
    return Answer(
        task_id=form.get("task", ""),
        signal=form.get("signal", ""),
        key=form.get("key", ""),
        digest=form.get("digest", ""),
        person=visit.person,
        said="Allowed" if choice == "allow" else "Denied",
        value={"allow": choice == "allow", "by": visit.person, "reason": reason},
    )


async def _static(request: Request) -> Response:
    return static(request.path_params["name"])
