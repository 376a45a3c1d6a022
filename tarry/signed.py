"""Texts that go out into the world and come back, signed: nobody guesses one, and nothing needs to be stored.

Every use signs under a purpose of its own, so that one secret may serve many and no text of one is good for another.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Sequence


class BadToken(Exception):
    """No token of ours, or one that was changed."""


class ExpiredToken(Exception):
    """A token of ours whose time has passed."""


def sign(secret: str, purpose: bytes, text: str) -> str:
    """A token that holds the text, readable, with its signature behind a dot."""
    payload = _text(text.encode())
    return f"{payload}.{_mac(secret, purpose, payload)}"


def read_signed(token: str, secrets: Sequence[str], purpose: bytes) -> str:
    """The text in a token.

    Raises:
        BadToken: none of `secrets` signed it for that purpose.
    """
    payload, _, mac = token.partition(".")
    try:
        if not any(hmac.compare_digest(_mac(one, purpose, payload).encode(), mac.encode()) for one in secrets):
            raise BadToken
        return base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)).decode()
    except ValueError:  # of base64, of text that is not ASCII, of what was signed
        raise BadToken from None


def _mac(secret: str, purpose: bytes, payload: str) -> str:
    return _text(hmac.digest(os.fsencode(secret), purpose + payload.encode(), hashlib.sha256))


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
