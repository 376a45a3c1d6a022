"""What running code may read from the world, and tell it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from signals.tokens import Signal, SignalKey
from tarry.core.waiting import SignalResult

T = TypeVar("T")


@dataclass(frozen=True)
class Received(Generic[T]):
    """A key holds this value, which came `at` that time."""

    value: T
    at: datetime


@dataclass(frozen=True)
class Expired:
    """The deadline of a wait on the key passed before a value came; none will."""


class SignallingApi(Protocol):
    """Keys of the own task, those of others, and the roads on which webhooks come in."""

    async def read_signal(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """What a key of this call holds, whatever woke it: a value, that its wait expired, or nothing yet (spec §3.10).

        Raises:
            Unreadable: the value was stored under another declaration and does not fit this one.
            StaleRun: this run was given up.
        """
        ...

    def read_signal_sync(self, token: Signal[T], key: str) -> Received[T] | Expired | None:
        """`read_signal` for a sync tool."""
        ...

    async def signal(
        self, task_id: str, token: Signal[T], key: str, value: T, *, delivery_id: str | None = None
    ) -> SignalResult:
        """Deliver a value to another task, and say what became of it; never raises for what the task answers.

        What only people answer is `invalid`, and so is a delivery id in a person's name (spec §23.6).

        By default the delivery id is made of this call, this key and that task, so a rerun delivers nothing twice.

        Raises:
            StaleRun: this run was given up.
            ServerUnavailable: no server answers.
        """
        ...

    def signal_sync(
        self, task_id: str, token: Signal[T], key: str, value: T, *, delivery_id: str | None = None
    ) -> SignalResult:
        """`signal` for a sync tool."""
        ...

    async def expect(self, source: str, match: str, key: SignalKey) -> None:
        """Have the gateway deliver webhooks of `source` that tell of `match` to `key` of this task (docs/webhooks.md).

        Durable when it returns. Call it before the outside work is started; a webhook that came earlier is delivered
        as well. Once more with the same key changes nothing.

        Raises:
            MatchTaken: another task, or another key, expects that match.
            ValueError: the match or the key cannot be one, or only people answer it.
            ServerUnavailable: no server answers; try again.
            StaleRun: this run was given up.
        """
        ...

    def expect_sync(self, source: str, match: str, key: SignalKey) -> None:
        """`expect` for a sync tool."""
        ...

    def callback_url(self, key: SignalKey, *, expires: datetime | None = None) -> str:
        """A URL of the gateway for a service that takes one for each job: what it POSTs there is the value of `key`.

        The same on every rerun; nobody can guess it, and it delivers to that key only.

        Raises:
            WebhookError: the worker has no `TARRY_GATEWAY_URL` or no `TARRY_CALLBACK_SECRETS`.
            ValueError: the key cannot be one, or only people answer it; or `expires` has no time zone.
        """
        ...

    def answer_link(self, key: SignalKey, value: Any, *, person: str = "", expires: datetime | None = None) -> str:
        """A link for a person, to a page on which they may deliver `value` to `key` while this call waits for it.

        It is good while the call asks with the arguments that it has now, and for a week or until `expires`. Opening it
        decides nothing. `person` is recorded as who answered: send it to nobody else (docs/inbox.md).

        Raises:
            WebhookError: as `callback_url`.
            ValueError: the key or the name can be none, the value is over 2,000 characters, `expires` has no time zone.
        """
        ...
