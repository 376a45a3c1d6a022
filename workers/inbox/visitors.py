"""Who visits, with which form: every request of the inbox passes here, and every POST is checked here (spec §23.5)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response
from temporalio.service import RPCError

from tarry.client.errors import ServerUnavailable
from workers import gateway_replies
from workers.gateway_body import body_of
from workers.inbox.door import BROWSER_COOKIE, Door, is_from_own_page, is_secure
from workers.inbox.pages import page

MAX_FORM = 1024 * 1024
MAX_FIELDS = 500
FORM_TOKEN = "form"

Form = Mapping[str, str]


class Refused(Exception):
    """The request is answered with a page that says why not."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


@dataclass(frozen=True)
class Visit:
    """A request with who sent it; `person` is empty where nobody is signed in. `token` goes into every form."""

    request: Request
    person: str
    token: str
    form: Form

    def page(self, template: str, status: int = 200, **told: Any) -> Response:
        """A page for who sent it."""
        return page(template, status, person=self.person, form=self.token, **told)

    @property
    def query(self) -> Mapping[str, str]:
        """What stands behind the question mark."""
        return self.request.query_params


Handler = Callable[[Visit], Awaitable[Response]]


class Visitors:
    """Meets the visitors of one inbox."""

    def __init__(self, door: Door, public_url: str | None) -> None:
        self._door = door
        self._public_url = public_url

    def signed_in(self, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
        """For those alone who are signed in; others are shown where to do that."""

        async def handled(visit: Visit) -> Response:
            return await handle(visit) if visit.person else self.sign_in_page(visit)

        return self.anybody(handled)

    def anonymous(self, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
        """For everybody, whoever is signed in."""
        return self._met(handle, knows_people=False)

    def anybody(self, handle: Handler) -> Callable[[Request], Awaitable[Response]]:
        """For everybody, with who is signed in."""
        return self._met(handle, knows_people=True)

    def _met(self, handle: Handler, *, knows_people: bool) -> Callable[[Request], Awaitable[Response]]:
        async def handled(request: Request) -> Response:
            held = request.cookies.get(BROWSER_COOKIE, "")
            browser = held if len(held) == 32 and held.isalnum() else secrets.token_hex(16)
            try:
                response = await handle(await self._visit(request, browser, knows_people=knows_people))
            except Refused as error:
                response = page("message.html", error.status, title="Not done", text=error.text)
            except (ServerUnavailable, RPCError):
                text = "Temporal does not answer. Nothing was done; try again in a moment."
                response = page("message.html", 503, title="Not now", text=text)
            if browser != held:
                # Lax, or a visit by a link from elsewhere would make the forms of other tabs worthless.
                self.set_cookie(request, response, BROWSER_COOKIE, browser, None, "lax")
            return response

        return handled

    def sign_in_page(self, visit: Visit, problem: str = "") -> Response:
        """Where to sign in, as far as that is done here."""
        return page(
            "sign_in.html",
            401,
            form=visit.token,
            takes_tokens=bool(self._door.sessions.tokens),
            problem=problem,
        )

    def set_cookie(
        self,
        request: Request,
        response: Response,
        name: str,
        value: str,
        seconds: int | None,
        samesite: Literal["strict", "lax"] = "strict",
    ) -> None:
        """A cookie that no script reads, and that no request from another site's page carries."""
        secure = is_secure(request, self._public_url)
        response.set_cookie(
            name, value, max_age=seconds, path="/inbox", secure=secure, httponly=True, samesite=samesite
        )

    async def _visit(self, request: Request, browser: str, *, knows_people: bool) -> Visit:
        person = await self._door.person(request) if knows_people else ""
        bound, now = f"{person}\n{browser}", time.time()
        form: Form = {}
        if request.method == "POST":
            if not is_from_own_page(request, self._public_url):
                raise Refused(403, "This did not come from a page of this inbox. Nothing was done.")
            form = await read_form(request)
            if not self._door.sessions.is_form(form.get(FORM_TOKEN, ""), bound, now):
                raise Refused(403, "This page was too old, or of another sign-in. Load it again. Nothing was done.")
        return Visit(request, person, self._door.sessions.form(bound, now), form)


async def read_form(request: Request) -> Form:
    """The fields of a form; of two with one name the last.

    Raises:
        Refused: it is too large, it does not come in time, or it is no form.
    """
    try:
        body = await body_of(request, MAX_FORM)
    except gateway_replies.Refused as error:
        reply = error.reply
        raise Refused(reply.code, f"The form cannot be read: {reply.reason}. Nothing was done.") from None
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS))
    except ValueError:
        raise Refused(400, "That is no form. Nothing was done.") from None
