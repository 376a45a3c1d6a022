"""What a browser is given to come back with: a session after signing in, and a token in every form.

Both are signed and nothing is kept here, so any number of gateways may run. A session is signed with the token of the
person that it is of: whose token is taken away is signed out.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass

SESSION_SECONDS = 12 * 3_600
FORM_SECONDS = 12 * 3_600
_SESSION = b"tarry.inbox.session.1\n"
_FORM = b"tarry.inbox.form.1\n"
_TOLD = b"tarry.inbox.told.1\n"


@dataclass(frozen=True)
class Sessions:
    """Signs for one deployment. `tokens`: of people by name. `key`: the same for all gateways of an address."""

    tokens: Mapping[str, str]
    key: bytes

    def begin(self, token: str, now: float) -> tuple[str, str] | None:
        """The person whose token it is, and their session; None when it is nobody's."""
        known = [name for name, held in self.tokens.items() if _same(token.encode("utf-8", "replace"), held.encode())]
        if not known:
            return None
        said = _text(json.dumps({"person": known[0], "until": int(now) + SESSION_SECONDS}).encode())
        return known[0], f"{said}.{_mac(_key_of(self.tokens[known[0]]), _SESSION, said)}"

    def person(self, session: str, now: float) -> str:
        """Whose session it is; empty when it is none, or is over."""
        said, _, mac = session.partition(".")
        try:
            found = json.loads(_data(said))
            person, until = str(found["person"]), int(found["until"])
        except (ValueError, KeyError, TypeError):
            return ""
        token = self.tokens.get(person)
        if token is None or now >= until or not _is_signed(_key_of(token), _SESSION, said, mac):
            return ""
        return person

    def form(self, bound: str, now: float) -> str:
        """What a form must carry that was shown to somebody; `bound`: the person and what their browser holds."""
        until = str(int(now) + FORM_SECONDS)
        return f"{until}.{self._form_mac(until, bound)}"

    def is_form(self, token: str, bound: str, now: float) -> bool:
        """Whether a form came from a page that this browser was shown, not long ago."""
        until, _, mac = token.partition(".")
        is_open = until.isascii() and until.isdecimal() and len(until) < 15 and now < int(until)
        return is_open and _same(self._form_mac(until, bound).encode(), mac.encode("utf-8", "replace"))

    def _form_mac(self, until: str, bound: str) -> str:
        return _mac(self.key, _FORM, f"{until}\n{bound}")

    def sealed(self, data: object) -> str:
        """Data that comes back from an address, so that nobody else can have a page say it."""
        said = _text(json.dumps(data).encode())
        return f"{said}.{_mac(self.key, _TOLD, said)}"

    def unsealed(self, text: str) -> object:
        """The data; None of what was not sealed here."""
        said, _, mac = text.partition(".")
        return json.loads(_data(said)) if _is_signed(self.key, _TOLD, said, mac) else None


def _key_of(token: str) -> bytes:
    return hashlib.sha256(os.fsencode(token)).digest()


def _mac(key: bytes, purpose: bytes, said: str) -> str:
    return _text(hmac.digest(key, purpose + said.encode("utf-8", "replace"), hashlib.sha256))


def _is_signed(key: bytes, purpose: bytes, said: str, mac: str) -> bool:
    return _same(_mac(key, purpose, said).encode(), mac.encode("utf-8", "replace"))


def _same(one: bytes, other: bytes) -> bool:
    # Of hashes, so that not even the length of the one that is right is told.
    return hmac.compare_digest(hashlib.sha256(one).digest(), hashlib.sha256(other).digest())


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _data(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode("ascii", "strict") + b"=" * (-len(text) % 4))
