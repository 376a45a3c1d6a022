"""How senders sign: three schemes over the raw bytes of the body.

A scheme holds no secret. It is checked before a body is parsed, and every comparison takes the same time
whatever the difference.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, Protocol

from standardwebhooks.webhooks import Webhook, WebhookVerificationError

from signals.data import clean

WINDOW = timedelta(minutes=5)
"""How far the time in a signature may be from ours, either way."""

_MAX_ID = 1_000


class NotSigned(Exception):
    """The request is not signed as its source signs, or not recently. The text is for the sender."""


class Signature(Protocol):
    """A scheme. Header names are lower-case in what it is given."""

    def check_secret(self, secret: str) -> None:
        """Return when `secret` can be one of this scheme.

        Raises:
            ValueError: it cannot; the text does not show it.
        """
        ...

    def verify(self, body: bytes, headers: Mapping[str, str], secrets: Sequence[str], now: datetime) -> str:
        """Return the sender's own id of the delivery, empty when the scheme has none.

        Raises:
            NotSigned: no signature fits any of `secrets`.
        """
        ...


@dataclass(frozen=True)
class StandardWebhooks:
    """The Standard Webhooks specification: `webhook-id`, `webhook-timestamp`, `webhook-signature`; five minutes."""

    def check_secret(self, secret: str) -> None:
        """Secrets are base64, with or without `whsec_` before it."""
        # The library leaves out what is no base64, and would go on with another key than the sender's.
        text = secret.removeprefix("whsec_")
        if not base64.b64decode(text + "=" * (-len(text) % 4), validate=True):
            raise ValueError("the secret is empty")

    def verify(self, body: bytes, headers: Mapping[str, str], secrets: Sequence[str], now: datetime) -> str:
        """The id is `webhook-id`, which a resend repeats. The library reads the clock itself."""
        problem = "no secret is set"
        for secret in secrets:
            try:
                Webhook(secret).verify(body, dict(headers), json_parse=False)
            except WebhookVerificationError as error:
                problem = str(error)
            except ValueError:  # it raises what it meets in malformed headers and in bodies that are no text
                problem = "malformed signature headers or body"
            else:
                return headers["webhook-id"][:_MAX_ID]
        raise NotSigned(problem)


@dataclass(frozen=True)
class HmacSha256:
    """HMAC-SHA256 in a header.

    Args:
        header: that holds the signature, and only one.
        prefix: what the header holds before the digest, such as `sha256=`.
        encoding: of the digest.
        timestamp_header: the time of sending in Unix seconds. Without it old requests can be replayed: a key takes one
            value, so they do no harm to a task, but they are not refused either.
        before_body: what is signed before the body when there is a timestamp; `{timestamp}` stands for it.
        id_header: the sender's own id of the delivery, which a resend repeats.
        window: how far the timestamp may be from our clock, either way.
    """

    header: str
    prefix: str = ""
    encoding: Literal["hex", "base64"] = "hex"
    timestamp_header: str | None = None
    before_body: str = "{timestamp}."
    id_header: str | None = None
    window: timedelta = WINDOW

    def check_secret(self, secret: str) -> None:
        """Any text will do."""

    def verify(self, body: bytes, headers: Mapping[str, str], secrets: Sequence[str], now: datetime) -> str:
        """The id is what `id_header` says."""
        given = headers.get(self.header.lower(), "")
        if not given:
            raise NotSigned(f"header {self.header} is missing")
        signed = self._before(headers, now) + body
        if not any(hmac.compare_digest(self._header(secret, signed), _bytes(given)) for secret in secrets):
            raise NotSigned("no matching signature")
        return headers.get(self.id_header.lower(), "")[:_MAX_ID] if self.id_header else ""

    def sign(self, body: bytes, secret: str, timestamp: int | None = None) -> str:
        """The header's value for a body: what a sender puts there."""
        before = "" if timestamp is None else self.before_body.replace("{timestamp}", str(timestamp))
        return self._header(secret, before.encode() + body).decode()

    def _before(self, headers: Mapping[str, str], now: datetime) -> bytes:
        if self.timestamp_header is None:
            return b""
        timestamp = headers.get(self.timestamp_header.lower(), "")
        if not (timestamp.isascii() and timestamp.isdecimal() and len(timestamp) <= 12):
            raise NotSigned(f"header {self.timestamp_header} holds no time in Unix seconds")
        if abs(int(timestamp) - now.timestamp()) > self.window.total_seconds():
            raise NotSigned("the timestamp is too old or too new")
        return self.before_body.replace("{timestamp}", timestamp).encode()

    def _header(self, secret: str, signed: bytes) -> bytes:
        digest = hmac.digest(os.fsencode(secret), signed, hashlib.sha256)
        text = digest.hex().encode() if self.encoding == "hex" else base64.b64encode(digest)
        return self.prefix.encode() + text


GITHUB = HmacSha256(header="X-Hub-Signature-256", prefix="sha256=", id_header="X-GitHub-Delivery")
"""GitHub's scheme. It signs no time; its delivery id is not signed either, and only makes a resend recognisable."""


def _bytes(text: str) -> bytes:
    return clean(text, 10_000).encode()
