"""Where webhooks come from: declared by the application, with secrets by reference only."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from signals.tokens import value_problem
from tarry.core.expectation import UNEXPECTED_FOR, match_problem
from tarry.webhooks.errors import WebhookError
from tarry.webhooks.signatures import Signature

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

MAX_BODY = 1024 * 1024


@dataclass(frozen=True)
class Event:
    """What a webhook tells: `value` for whoever expects `match` (text of 1 byte to 8 KiB) from its source."""

    match: str
    value: Any


@dataclass(frozen=True)
class WebhookSource:
    """A sender of webhooks, at `POST /webhooks/<name>`.

    Args:
        name: 1 to 64 of a-z, 0-9, `-` and `_`; matches of one source never meet those of another.
        signature: how it signs.
        secret: the *name* of the environment variable that holds its secret; several secrets with blanks between
            them, while they are being changed. They are read by the gateway alone, when it starts.
        event: a pure function of the parsed body and the headers (names in lower case). None means that there is
            nothing to tell: turn only terminal states into events, since a key takes one value. What it raises, the
            sender is told as a final 422.
        max_bytes: of a body; larger ones are refused.
        unexpected_for: how long a webhook that nobody expects yet is kept; with zero it is `not_found`.

    Raises:
        ValueError: the name cannot stand in a URL, the variable's name is none, or a limit is not positive.
    """

    name: str
    signature: Signature
    secret: str
    event: Callable[[Any, Mapping[str, str]], Event | None]
    max_bytes: int = MAX_BODY
    unexpected_for: timedelta = UNEXPECTED_FOR

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(f"webhook source {self.name!r}: a name is 1 to 64 of a-z, 0-9, - and _")
        if not _VARIABLE.fullmatch(self.secret):
            raise ValueError(f"webhook source {self.name}: secret is the name of an environment variable")
        if self.max_bytes < 1 or self.unexpected_for < timedelta(0):
            raise ValueError(f"webhook source {self.name}: max_bytes and unexpected_for cannot be that small")

    def secrets(self, environment: Mapping[str, str]) -> tuple[str, ...]:
        """Its secrets.

        Raises:
            WebhookError: the variable is not set, or holds what is no secret of the scheme.
        """
        secrets = tuple(environment.get(self.secret, "").split())
        if not secrets:
            raise WebhookError(
                f"webhook source {self.name}: set {self.secret} to the secret that its sender signs with"
            )
        for secret in secrets:
            try:
                self.signature.check_secret(secret)
            # The scheme may be the application's; its text may show the secret.
            except Exception:
                raise WebhookError(f"webhook source {self.name}: {self.secret} holds no secret of its scheme") from None
        return secrets

    def read(self, body: Any, headers: Mapping[str, str]) -> Event | None:
        """What the application makes of a body.

        Raises:
            Exception: whatever its function raises; ValueError and TypeError when it returns what nobody could be told.
        """
        event = self.event(body, headers)
        if event is None:
            return None
        if not isinstance(event, Event):
            raise TypeError(f"an Event or None is wanted, not {type(event).__name__}")
        if (problem := match_problem(event.match) or value_problem(event.value)) is not None:
            raise ValueError(problem)
        return event


def sources_by_name(sources: Sequence[WebhookSource]) -> dict[str, WebhookSource]:
    """The sources by name.

    Raises:
        WebhookError: two share one.
    """
    found = {source.name: source for source in sources}
    if len(found) < len(sources):
        names = [source.name for source in sources]
        twice = next(name for name in names if names.count(name) > 1)
        raise WebhookError(f"two webhook sources are named {twice}")
    return found
