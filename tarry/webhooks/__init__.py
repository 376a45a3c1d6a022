"""Webhooks: where they come from, how they are signed, and which task one is for (docs/webhooks.md).

An application declares sources and their signatures; a tool says what it expects, or gives a service a URL
of its own. The gateway takes the requests.
"""

from tarry.webhooks.callbacks import callback_url
from tarry.webhooks.errors import MatchTaken, WebhookError
from tarry.webhooks.registry import expect
from tarry.webhooks.signatures import GITHUB, HmacSha256, Signature, StandardWebhooks
from tarry.webhooks.sources import Event, WebhookSource

__all__ = [
    "GITHUB",
    "Event",
    "HmacSha256",
    "MatchTaken",
    "Signature",
    "StandardWebhooks",
    "WebhookError",
    "WebhookSource",
    "callback_url",
    "expect",
]
