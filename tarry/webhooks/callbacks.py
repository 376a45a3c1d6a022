"""URLs for services that take one for each job: the last part names the task and key, and is signed.

Nothing is stored: who holds the URL may deliver to that key and to nothing else, and nobody can guess one. The same key
has the same URL on every rerun.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from signals.tokens import SignalKey
from tarry.core.expectation import Target
from tarry.settings import Settings
from tarry.signed import BadToken, ExpiredToken, read_signed, sign
from tarry.webhooks.errors import WebhookError

_PURPOSE = b"tarry.callback.1\n"
"""Signed before every token: the same secret may serve something else too."""


class _Token(Target):
    expires: int | None = None


def callback_url(settings: Settings, task_id: str, key: SignalKey, *, expires: datetime | None = None) -> str:
    """The URL to which a service POSTs the JSON value of `key`; as long as about one and a half times task id and key.

    Args:
        settings: `gateway_url`, and `callback_secrets`, whose first one signs.
        expires: from then on it delivers nothing; by default it lasts as long as the task.

    Raises:
        WebhookError: one of these settings is missing.
        ValueError: the key cannot be one, or `expires` has no time zone.
    """
    if settings.gateway_url is None:
        raise WebhookError("set TARRY_GATEWAY_URL to the address at which services reach the gateway")
    secret, *_ = required_secrets(settings)
    if (problem := key.problem) is not None:
        raise ValueError(problem)
    if expires is not None and expires.utcoffset() is None:
        raise ValueError("expires is a datetime without a time zone; give an aware one")
    until = None if expires is None else int(expires.timestamp())
    token = _Token(task_id=task_id, signal=key.signal, key=key.key, expires=until)
    signed = sign(secret, _PURPOSE, token.model_dump_json(exclude_none=True))
    return f"{settings.gateway_url.rstrip('/')}/callbacks/{signed}"


def required_secrets(settings: Settings) -> tuple[str, ...]:
    """The secrets of callback URLs, the one that signs first.

    Raises:
        WebhookError: none is set.
    """
    if settings.callback_secrets is None:
        raise WebhookError(
            "set TARRY_CALLBACK_SECRETS to a secret of 32 characters or more, the same for all processes"
        )
    return tuple(settings.callback_secrets.get_secret_value().split())


def read_token(token: str, secrets: Sequence[str], now: datetime) -> Target:
    """The task and key that a URL's last part names.

    Raises:
        BadToken: none of `secrets` signed it.
        ExpiredToken: one did, and its time has passed.
    """
    text = read_signed(token, secrets, _PURPOSE)
    try:
        read = _Token.model_validate_json(text)
    except ValueError:
        raise BadToken from None
    if read.expires is not None and now.timestamp() >= read.expires:
        raise ExpiredToken
    return Target(task_id=read.task_id, signal=read.signal, key=read.key)
