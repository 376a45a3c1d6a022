"""Who is at the door of the inbox, and whether a form came from a page of ours (spec §23.3).

Asked at every request: the application first, then a proxy that proves itself, then the session of a token. Without
any of them the inbox is off.
"""

from __future__ import annotations

import hashlib
import inspect
import logging
import os
import secrets
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request

from tarry.core.people import person_problem
from tarry.inbox import SignIn
from tarry.settings import Settings
from workers.inbox.sessions import Sessions, is_same

SESSION_COOKIE = "tarry_inbox"
BROWSER_COOKIE = "tarry_browser"
PROXY_SECRET = "X-Tarry-Proxy-Secret"

LOG = logging.getLogger("tarry.inbox")


@dataclass(frozen=True)
class Door:
    """Says who a request is from."""

    sessions: Sessions
    sign_in: SignIn | None = None
    user_header: str = ""
    proxy_secret: str = ""

    @property
    def is_open(self) -> bool:
        """Whether there is any way to sign in."""
        return bool(self.sign_in or self.sessions.tokens or (self.user_header and self.proxy_secret))

    async def person(self, request: Request) -> str:
        """Who is signed in; empty: nobody."""
        found = await self._of_app(request) or self._of_proxy(request) or self._of_session(request)
        if found and (problem := person_problem(found)) is not None:
            LOG.warning("somebody is signed in under a name that cannot be recorded: %s", problem)
            return ""
        return found

    async def _of_app(self, request: Request) -> str:
        if self.sign_in is None:
            return ""
        try:
            answer = self.sign_in(_headers(request))
            found = await answer if inspect.isawaitable(answer) else answer
        except Exception:  # the application's code, at outside data
            LOG.exception("the application's sign-in failed")
            return ""
        return found if isinstance(found, str) else ""

    def _of_proxy(self, request: Request) -> str:
        if not self.user_header or not self.proxy_secret:
            return ""
        proof, names = request.headers.getlist(PROXY_SECRET), request.headers.getlist(self.user_header)
        if len(proof) != 1 or len(names) != 1:
            return ""  # two of one name: somebody sent one along
        return _name(names[0]) if is_same(proof[0], self.proxy_secret) else ""

    def _of_session(self, request: Request) -> str:
        return self.sessions.person(request.cookies.get(SESSION_COOKIE, ""), time.time())


def door_of(settings: Settings, sign_in: SignIn | None) -> Door:
    """The door that the settings and the application open."""
    held = settings.inbox_tokens.get_secret_value() if settings.inbox_tokens else ""
    proxy = settings.inbox_proxy_secret.get_secret_value() if settings.inbox_proxy_secret else ""
    pairs = (one.partition("=") for one in held.split())
    sessions = Sessions({name: token for name, _, token in pairs}, _key(settings, held + proxy))
    return Door(sessions, sign_in, settings.inbox_user_header or "", proxy)


def _name(header: str) -> str:
    """A name of a header, which is read as Latin-1; proxies write UTF-8."""
    try:
        return header.encode("latin-1").decode()
    except UnicodeError:
        return header


def _key(settings: Settings, held: str) -> str:
    """What forms are signed with: made of what all gateways hold; where they hold nothing, this one's own."""
    held = held or (settings.callback_secrets.get_secret_value().split()[0] if settings.callback_secrets else "")
    return hashlib.sha256(b"tarry.inbox.key.1\n" + os.fsencode(held)).hexdigest() if held else secrets.token_hex(32)


def _headers(request: Request) -> dict[str, str]:
    """Those that came once, and all cookies: of two of one name nobody can say which one is true."""
    came: dict[str, list[str]] = {}
    for name, value in request.headers.items():
        came.setdefault(name, []).append(value)
    cookies = {"cookie": "; ".join(came.pop("cookie"))} if "cookie" in came else {}
    return {name: values[0] for name, values in came.items() if len(values) == 1} | cookies


def is_from_own_page(request: Request, public_url: str | None) -> bool:
    """Whether a form was sent from a page of this inbox: a browser says so, and a program says nothing false."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:  # no page of somebody else can have a browser say that, whatever a proxy made of the address
        return site == "same-origin"
    own = {f"{scheme}://{request.headers.get('host', '')}" for scheme in ("http", "https")}
    if public_url is not None:
        parts = urlsplit(public_url)
        own.add(f"{parts.scheme}://{parts.netloc}")
    return request.headers.get("origin") in own


def is_secure(request: Request, public_url: str | None) -> bool:
    """Whether the browser came over TLS, so that its cookies may be for that alone."""
    forwarded = request.headers.get("x-forwarded-proto", "")
    return request.url.scheme == "https" or forwarded == "https" or (public_url or "").startswith("https://")
