"""How the CI service reports: a webhook signed as standardwebhooks.com says, sent again until it is answered for good.

Signed by hand, not with the library that checks it at the other end, so that the two vouch for each other.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from collections.abc import Mapping

import httpx
from tenacity import Retrying, retry_if_exception_type, retry_if_result, stop_after_delay, wait_exponential

PATIENCE = 60.0
"""Seconds for which a webhook is sent again."""

_TIMEOUT = 5.0
_SECRET_PREFIX = "whsec_"


def signed(secret: str, webhook_id: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a webhook. `secret` is `whsec_` and the key in base64."""
    key = base64.b64decode(secret.removeprefix(_SECRET_PREFIX))
    content = f"{webhook_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, content, hashlib.sha256).digest()).decode()
    return {
        "Content-Type": "application/json",
        "webhook-id": webhook_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{signature}",
    }


def secret_of(key: bytes) -> str:
    """A secret as both ends are told it."""
    return _SECRET_PREFIX + base64.b64encode(key).decode()


def send(url: str, secret: str, webhook_id: str, facts: Mapping[str, object]) -> int:
    """The status of the answer. No answer, or a 5xx, and it is sent again under the same id, for a minute at most.

    Raises:
        httpx.TransportError: nothing has answered in all that time.
    """
    body = json.dumps(facts).encode()
    attempts = Retrying(
        retry=retry_if_exception_type(httpx.TransportError) | retry_if_result(lambda status: status >= 500),
        wait=wait_exponential(multiplier=0.1, max=5.0),
        stop=stop_after_delay(PATIENCE),
        retry_error_callback=lambda state: state.outcome.result() if state.outcome else 0,
    )
    status: int = attempts(_post, url, secret, webhook_id, body)
    return status


def _post(url: str, secret: str, webhook_id: str, body: bytes) -> int:
    headers = signed(secret, webhook_id, int(time.time()), body)
    # No proxy of the environment: the gateway is on this machine.
    return httpx.post(url, content=body, headers=headers, timeout=_TIMEOUT, trust_env=False).status_code
