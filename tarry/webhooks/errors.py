"""What can be wrong with webhooks on our side of the door."""

from __future__ import annotations

from tarry.client.errors import TarryError


class WebhookError(TarryError):
    """Webhooks cannot be used as they are declared or set. One line: what, and what to do; never a secret."""


class MatchTaken(WebhookError):
    """Another wait expects, or not long ago expected, that match of that source; nothing was changed."""
