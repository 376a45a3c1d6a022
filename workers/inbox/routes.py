"""The inbox over HTTP (spec §23). Reading changes nothing: only a POST with the token of a page does."""

from __future__ import annotations

import logging
import time
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from temporalio.client import Client
from temporalio.service import RPCError

from tarry.app import App
from tarry.client.decisions import decisions
from tarry.client.errors import ServerUnavailable
from tarry.client.exact import exact_arguments
from tarry.core.live import Question
from tarry.core.people import APPROVAL
from tarry.settings import Settings
from workers.gateway_sending import Road
from workers.inbox.answering import Answer, Answering
from workers.inbox.board import Board
from workers.inbox.door import SESSION_COOKIE, Door, door_of
from workers.inbox.forms import Form, filled, form_of
from workers.inbox.links import Links
from workers.inbox.listing import Listing
from workers.inbox.pages import HEADERS, static
from workers.inbox.receipts import STATUS, Told
from workers.inbox.sessions import SESSION_SECONDS
from workers.inbox.showing import Card, card
from workers.inbox.visitors import Refused, Visit, Visitors
from workers.inbox.watching import Watching, version_of

HISTORY = 30
"""Tasks on a page of the history."""

LOG = logging.getLogger("tarry.inbox")


class Inbox:
    """What happens to a request of the inbox."""

    def __init__(self, client: Client, app: App, door: Door, road: Road, settings: Settings) -> None:
        self.board = Board(client, settings.task_queue)
        self._client = client
        self._app = app
        self._signals = app.registry.signals
        self._queue = settings.task_queue
        self._door = door
        self._visitors = Visitors(door, settings.gateway_url)
        self._answering = Answering(client, road, settings.task_queue)
        secrets = settings.callback_secrets.get_secret_value().split() if settings.callback_secrets else []
        self._links = Links(tuple(secrets), self._visitors, self._answering, self._whole)

    def routes(self) -> list[Route]:
        """Its addresses; without a way to sign in those of links alone."""
        meet, signed_in = self._visitors.anybody, self._visitors.signed_in
        pages = [
            Route("/inbox", signed_in(self.inbox), methods=["GET"]),
            Route("/inbox/question", signed_in(self.question), methods=["GET"]),
            Route("/inbox/history", signed_in(self.history), methods=["GET"]),
            Route("/inbox/events", meet(Watching(self.board).events), methods=["GET"]),
            Route("/inbox/answer", signed_in(self.answer), methods=["POST"]),
            Route("/inbox/sign-in", meet(self.sign_in), methods=["POST"]),
            Route("/inbox/sign-out", meet(self.sign_out), methods=["POST"]),
        ]
        return [
            Route("/inbox/static/{name}", _static, methods=["GET"]),
            *self._links.routes(),
            *(pages if self._door.is_open else ()),
        ]

    async def inbox(self, visit: Visit) -> Response:
        """`GET /inbox`: what waits, the most urgent first."""
        told = Told.read(self._door.sessions.unsealed(visit.query.get("told", ""), visit.person))
        if told is not None and told.kind == "accepted":
            told = await self._answering.again(told)
        # Who has just answered sees the list without it.
        standing = await self.board.standing(anew=told is not None)
        listing = Listing.of(standing.parked, visit.query, lambda one: self._card(one, visit))
        version = version_of(standing)
        return visit.page("inbox.html", here="inbox", listing=listing, standing=standing, version=version, told=told)

    async def question(self, visit: Visit) -> Response:
        """`GET /inbox/question?task=…`: one question, with all that would run."""
        return await self._question(visit, visit.query.get("task", ""))

    async def history(self, visit: Visit) -> Response:
        """`GET /inbox/history`: who decided what, and what came of it."""
        now, problem = datetime.now(UTC), ""
        before = min(_time(visit.query.get("before", "")) or now, now)
        try:
            found = await decisions(self._client, self._queue, before, HISTORY)
        except ServerUnavailable:
            found, problem = [], "Temporal does not answer"
        newest = {one.task_id: one.decided.at for one in reversed(found)}
        further = newest[found[-1].task_id] if len(newest) >= HISTORY else None
        earlier = f"/inbox/history?{urlencode({'before': further.isoformat()})}" if further else ""
        return visit.page("history.html", here="history", found=found, earlier=earlier, problem=problem)

    async def answer(self, visit: Visit) -> Response:
        """`POST /inbox/answer`: answer, and be told what became of it."""
        form = visit.form
        asked = await self._answering.asked(form.get("task", ""))
        if asked is not None and not self._may_answer(visit.person, asked):
            raise Refused(403, "This question is not for you to answer. Nothing was sent.")
        answer, written = self._read(visit)
        if written is not None and written.problem:
            told = Told("invalid", "Not sent.", written.problem, answer.task_id)
        else:
            told = await self._answering.send(answer, asked)
        LOG.info("%s: answer of %.200r to %.200r", told.kind, visit.person, told.task_id)
        if told.kind in ("changed", "invalid", "unavailable") and asked is not None:
            try:
                return await self._question(visit, told.task_id, told, written)
            except (ServerUnavailable, RPCError):  # what is true of the answer is told without the question, too
                return visit.page("message.html", STATUS[told.kind], title="Not now", text=told.text)
        there = f"/inbox?{urlencode({'told': self._door.sessions.sealed(told.data, visit.person)})}"
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

    async def _question(
        self, visit: Visit, task_id: str, told: Told | None = None, written: Form | None = None
    ) -> Response:
        """The page of what a task asks now, with what was told and written when it was answered last."""
        asked = await self._answering.asked(task_id)
        if asked is None:
            text = await self._answering.ended(task_id)
            return visit.page("message.html", 404, title="Nothing is asked there any more", text=text)
        shown = replace(await self._whole(asked), may_answer=self._may_answer(visit.person, asked))
        sent = (visit.form.get("signal", ""), visit.form.get("key", ""))
        forms = [
            (signal, key, written if written is not None and (signal, key) == sent else self._form(signal))
            for signal, key in shown.keys
            if signal != APPROVAL
        ]
        return visit.page(
            "question.html",
            STATUS[told.kind] if told else 200,
            card=shown,
            told=told,
            forms=forms,
            reason=visit.form.get("reason", ""),
        )

    def _read(self, visit: Visit) -> tuple[Answer, Form | None]:
        """What a form answers; of a signal that is no approval the form as it was filled in, too."""
        form = visit.form
        signal, token = form.get("signal", ""), self._signals.get(form.get("signal", ""))
        written, value, said, version = None, None, "Answered.", None
        if (since := _time(form.get("since", ""))) is None:
            raise Refused(
                400, "This form does not say which question it is for: load the page again. Nothing was sent."
            )
        if signal == APPROVAL:
            if (choice := form.get("choice")) not in ("allow", "deny"):
                raise Refused(400, "Choose to allow or to deny. Nothing was sent.")
            reason = form.get("reason", "").strip()
            value = {"allow": choice == "allow", "by": visit.person, "reason": reason}
            said = "Allowed." if choice == "allow" else "Denied."
        else:
            written, value = filled(self._form(signal), form, token)
            version = token.version if token else None
        answer = Answer(
            task_id=form.get("task", ""),
            signal=signal,
            key=form.get("key", ""),
            digest=form.get("digest", ""),
            person=visit.person,
            said=said,
            value=value,
            version=version,
            since=since,
        )
        return answer, written

    def _form(self, signal: str) -> Form:
        return form_of(self._signals.get(signal))

    def _card(self, asked: Question, visit: Visit) -> Card:
        shown = card(asked, datetime.now(UTC), self._app.redact)
        return replace(shown, may_answer=self._may_answer(visit.person, asked))

    async def _whole(self, asked: Question) -> Card:
        found = await exact_arguments(self._client, asked.task_id, asked.tool, asked.digest)
        return card(asked, datetime.now(UTC), self._app.redact, found)

    def _may_answer(self, person: str, question: Question) -> bool:
        try:
            return self._app.inbox.may_answer(person, question) is True
        except Exception:  # the application's code
            LOG.exception("the application could not say whether %.200r may answer", person)
            return False


def inbox_of(client: Client, app: App, road: Road, settings: Settings) -> Inbox:
    """The inbox of an application. Where nobody could sign in a line says how to switch it on (spec §23.3)."""
    door = door_of(settings, app.inbox.sign_in)
    if not door.is_open:
        LOG.info(
            "the inbox is off: set TARRY_INBOX_TOKENS, or TARRY_INBOX_USER_HEADER with TARRY_INBOX_PROXY_SECRET, "
            "or give the App an Inbox that signs people in"
        )
    return Inbox(client, app, door, road, settings)


def _time(text: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(text)
        return at.astimezone(UTC) if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


async def _static(request: Request) -> Response:
    return static(request.path_params["name"])
