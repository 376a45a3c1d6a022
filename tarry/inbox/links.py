"""Links by which one answer is given from a chat message or a mail, without signing in (spec §23.8).

A link is a password for one answer to one question: it holds the answer that it offers, the digest of what would run,
the person it is for and until when it is good, all of it signed. Nothing is stored, and opening one decides nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict

from signals.tokens import SignalKey, value_problem
from tarry.core.people import person_problem
from tarry.settings import Settings
from tarry.signed import BadToken, ExpiredToken, read_signed, sign
from tarry.webhooks.callbacks import required_secrets
from tarry.webhooks.errors import WebhookError

MAX_VALUE = 2_000
"""Characters of a value in a link, as JSON."""
_PURPOSE = b"tarry.link.1\n"


class AnswerLink(BaseModel):
    """What a link says. `person` is empty where it is for whoever holds it; `expires` in seconds of 1970."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    signal: str
    key: str
    digest: str
    value: Any
    person: str = ""
    expires: int

    @property
    def nonce(self) -> str:
        """The same however often it is used, so that it counts once."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()[:32]


def answer_link(
    settings: Settings,
    task_id: str,
    key: SignalKey,
    value: Any,
    *,
    digest: str,
    expires: datetime,
    person: str = "",
) -> str:
    """The URL of a page of the gateway that offers to deliver `value` under `key` while the question has that digest.

    Args:
        settings: `gateway_url`, and `callback_secrets`, whose first one signs.
        value: JSON data that its signal takes, of at most 2,000 characters: it stands in the link.
        expires: from then on it is good for nothing.
        person: who is to be recorded as the one who answered; whoever holds the link is taken for them.

    Raises:
        WebhookError: one of these settings is missing.
        ValueError: the key or the name can be none, the value is too large, or `expires` has no time zone.
    """
    if settings.gateway_url is None:
        raise WebhookError("set TARRY_GATEWAY_URL to the address at which people reach the gateway")
    secret, *_ = required_secrets(settings)
    if expires.utcoffset() is None:
        raise ValueError("expires is a datetime without a time zone; give an aware one")
    link = AnswerLink(
        task_id=task_id,
        signal=key.signal,
        key=key.key,
        digest=digest,
        value=value,
        person=person,
        expires=int(expires.timestamp()),
    )
    problem = key.problem or value_problem(value) or (person_problem(person) if person else None)
    text = link.model_dump_json()
    if problem is None and len(text) - len(task_id) - len(key.key) > MAX_VALUE + 500:
        problem = f"a link holds a value of at most {MAX_VALUE} characters"
    if problem is not None:
        raise ValueError(problem)
    return f"{settings.gateway_url.rstrip('/')}/inbox/link/{sign(secret, _PURPOSE, text)}"


def read_link(token: str, secrets: Sequence[str], now: datetime) -> AnswerLink:
    """What a link's last part says.

    Raises:
        BadToken: none of `secrets` signed it.
        ExpiredToken: one did, and its time has passed.
    """
    try:
        link = AnswerLink.model_validate_json(read_signed(token, secrets, _PURPOSE))
    except ValueError:
        raise BadToken from None
    if now.timestamp() >= link.expires:
        raise ExpiredToken
    return link
