"""What a browser is given to come back with: a session after signing in, and a token in every form.

All of it is signed and nothing is kept here, so any number of gateways may run. A session is signed with the token of
the person that it is of: whose token is taken away is signed out.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass

from tarry.signed import BadToken, read_signed, sign

SESSION_SECONDS = 12 * 3_600
FORM_SECONDS = 12 * 3_600
RENEWED_SECONDS = 3_600
"""How often a page that stays open is given new tokens for its forms."""
_SESSION = b"tarry.inbox.session.1\n"
_FORM = b"tarry.inbox.form.1\n"
_TOLD = b"tarry.inbox.told.2\n"


@dataclass(frozen=True)
class Sessions:
    """Signs for one deployment. `tokens`: of people by name. `key`: the same for all gateways of an address."""

    tokens: Mapping[str, str]
    key: str

    def begin(self, token: str, now: float) -> tuple[str, str] | None:
        """The person whose token it is, and their session; None when it is nobody's."""
        known = [name for name, held in self.tokens.items() if is_same(token, held)]
        if not known:
            return None
        said = {"person": known[0], "until": int(now) + SESSION_SECONDS}
        return known[0], sign(self.tokens[known[0]], _SESSION, json.dumps(said))

    def person(self, session: str, now: float) -> str:
        """Whose session it is; empty when it is none, or is over."""
        for name, token in self.tokens.items():
            try:
                found = json.loads(read_signed(session, [token], _SESSION))
            except BadToken:
                continue
            return name if found["person"] == name and now < found["until"] else ""
        return ""

    def form(self, bound: str, now: float) -> str:
        """What a form must carry that was shown to somebody; `bound`: the person and what their browser holds."""
        return sign(self.key, _FORM, json.dumps({"bound": _hash(bound), "until": int(now) + FORM_SECONDS}))

    def is_form(self, token: str, bound: str, now: float) -> bool:
        """Whether a form came from a page that this browser was shown, not long ago."""
        try:
            found = json.loads(read_signed(token, [self.key], _FORM))
        except BadToken:
            return False
        return is_same(found["bound"], _hash(bound)) and now < found["until"]

    def sealed(self, data: object, person: str) -> str:
        """Data that comes back in an address, so that no page says it to anybody else, or that nobody sealed."""
        return sign(self.key, _TOLD, json.dumps([person, data]))

    def unsealed(self, text: str, person: str) -> object:
        """The data; None of what was not sealed here, for that person."""
        try:
            whose, data = json.loads(read_signed(text, [self.key], _TOLD))
        except (BadToken, ValueError):
            return None
        return data if whose == person else None


def is_same(one: str, other: str) -> bool:
    """Whether two secrets are one, in a time that tells nothing of them."""
    # Of hashes, so that not even the length of the right one is told.
    return hmac.compare_digest(_hash(one), _hash(other))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()
