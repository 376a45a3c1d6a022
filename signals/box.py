"""What a task holds for the world: delivered values and memos, first writer wins, all of it bounded.

Pure; `now` comes in. A key is open, holds a value, or is expired; a wake marks it consumed, and a
consumed or expired key serves no second wait (spec §3.8). The state a task carries over a turn of its
run is this box as it is (spec §3.11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from signals.data import clean, json_size
from signals.schema import MAX_REASON
from signals.tokens import SignalKey, key_problem, value_problem

QUOTA_BYTES = 512 * 1024
"""Values, memos, marks and receipts of a task (spec §1.5)."""
EARLY_BYTES = 320 * 1024
"""The part of it that values nobody waits for may fill: one of the largest fits, and junk leaves room for memos."""
PARK_QUOTA_BYTES = 256 * 1024
"""For the keys of the current park, on top, so that junk never makes a parked task deaf (spec §1.5)."""
RECEIPT_BYTES = 64 * 1024
MAX_RECEIPTS = 200
MAX_DELIVERY_ID = 200

KEY_BYTES = 200
"""What the state of a key takes besides its names and its value; it bounds their number too."""
_SHORT = 200

Answer = Literal["delivered", "duplicate", "invalid", "closed", "not_found"]


class BoxFull(Exception):
    """The value would exceed the quota; nothing was stored."""


class Delivery(BaseModel):
    """One value on its way to a task. `delivery_id` makes a repeat of the same delivery recognisable."""

    model_config = ConfigDict(frozen=True, strict=True)

    signal: str
    key: str
    value: Any = None
    version: int | None = None
    delivery_id: str = ""

    @property
    def target(self) -> SignalKey:
        """The key it is for."""
        return SignalKey(self.signal, self.key)

    @property
    def problem(self) -> str | None:
        """Why no task could take it, whatever its token says; None when one might."""
        if len(self.delivery_id) > MAX_DELIVERY_ID:
            return f"delivery_id has {len(self.delivery_id)} characters, {MAX_DELIVERY_ID} are allowed"
        return key_problem(self.key) or value_problem(self.value)


class Receipt(BaseModel):
    """What became of a delivery that entered history. Names of over 200 characters end in a hash."""

    model_config = ConfigDict(frozen=True)

    delivery_id: str
    signal: str
    key: str
    answer: Answer
    at: datetime
    reason: str = ""

    @property
    def size(self) -> int:
        """Its bytes in a task's quota."""
        return json_size([self.delivery_id, self.signal, self.key, self.reason]) + KEY_BYTES


class Stored(BaseModel):
    """A value as it was sent, and the version it was sent in."""

    model_config = ConfigDict(frozen=True)

    value: Any
    version: int
    at: datetime
    delivery_id: str = ""


class KeyState(BaseModel):
    """One key of a task. Neither stored nor expired: open. `early`: the value came while no park listed the key."""

    model_config = ConfigDict(frozen=True)

    stored: Stored | None = None
    expired: bool = False
    consumed: bool = False
    early: bool = False

    @property
    def is_open(self) -> bool:
        """Whether a value may still come."""
        return self.stored is None and not self.expired

    @property
    def is_unused(self) -> bool:
        """Whether it holds a value that woke no park yet."""
        return self.stored is not None and not self.consumed


class Box(BaseModel):
    """Values by key, memos, and the receipts of what was delivered. A field that is absent is empty."""

    keys: dict[str, dict[str, KeyState]] = Field(default_factory=dict, description="by signal, then by key")
    memos: dict[str, Any] = Field(default_factory=dict)
    receipts: list[Receipt] = Field(default_factory=list, description="the newest, oldest first")
    used_bytes: int = Field(default=0, description="memos, values and marks")
    early_bytes: int = Field(default=0, description="of them, early values that woke no park yet")
    receipt_bytes: int = 0

    @property
    def own_bytes(self) -> int:
        """What the task itself filled: memos, and the keys it waited on."""
        return self.used_bytes - self.early_bytes

    def state(self, key: SignalKey) -> KeyState:
        """The state of a key; an unknown one is open. Reads without waiting (spec §3.10)."""
        return self.keys.get(key.signal, {}).get(key.key, KeyState())

    def memo(self, key: str, value: Any) -> Any:
        """Store `value` unless `key` holds one; return what it holds.

        Raises:
            BoxFull: the quota would be exceeded.
            NotJson: the value is no plain JSON data.
        """
        if key in self.memos:
            return self.memos[key]
        self.used_bytes += self.check(key, value)
        self.memos[key] = value
        return value

    def check(self, key: str, value: Any) -> int:
        """The bytes a new memo would take.

        Raises:
            BoxFull: the quota would be exceeded.
            NotJson: the value is no plain JSON data.
        """
        size = len(key.encode()) + json_size(value)
        if size > self._left:
            raise BoxFull(f"memo {key!r} needs {size} bytes, {max(self._left, 0)} are left")
        return size

    def answer(
        self,
        delivery: Delivery,
        invalid: str | None,
        *,
        awaited: Sequence[SignalKey] = (),
        deadline_passed: bool = False,
        closed: bool = False,
    ) -> tuple[Answer, str]:
        """What a delivery to an existing task would be told, and why; changes nothing and never raises (spec §3.2).

        The same `delivery_id` for the same key gives the answer it was given before.

        Args:
            invalid: why its token refuses the value, None when it does not.
            awaited: the keys of the current park; they have a quota of their own.
            deadline_passed: the delivery came at or after that park's deadline.
            closed: the task is over, holds its outcome, or was aborted.
        """
        if (earlier := self.answered(delivery)) is not None:
            return earlier.answer, earlier.reason
        if closed:
            return "closed", "the task is over or was stopped"
        if (problem := invalid or delivery.problem) is not None:
            return "invalid", problem
        state = self.state(delivery.target)
        if state.stored is not None:
            return "duplicate", "the key holds a value; the first one stays"
        if state.expired or (deadline_passed and delivery.target in awaited):
            return "closed", "the deadline of the wait has passed"
        if (full := self._full(delivery, awaited)) is not None:
            return "invalid", full
        return "delivered", ""

    def take(
        self,
        delivery: Delivery,
        invalid: str | None,
        version: int,
        now: datetime,
        *,
        awaited: Sequence[SignalKey] = (),
        deadline_passed: bool = False,
        closed: bool = False,
    ) -> Receipt:
        """Give a delivery its `answer`, store the value if that is `delivered`, and keep the receipt (spec §3.4).

        A repeat of a `delivery_id` is given the receipt of the first and leaves none.

        Args:
            version: that of the value, an omitted one made explicit; only looked at when it is delivered.
        """
        if (earlier := self.answered(delivery)) is not None:
            return earlier
        answer, reason = self.answer(delivery, invalid, awaited=awaited, deadline_passed=deadline_passed, closed=closed)
        if answer == "delivered":
            self._store(delivery, version, now, early=delivery.target not in awaited)
        receipt = _receipt(delivery, answer, reason, now)
        self._keep(receipt)
        return receipt

    def answered(self, delivery: Delivery) -> Receipt | None:
        """The receipt of an earlier delivery of the same id for the same key.

        One that was delivered is known as long as the task lives; a refusal as long as its receipt is kept.
        """
        if not delivery.delivery_id:
            return None
        stored = self.state(delivery.target).stored
        if stored is not None and stored.delivery_id == delivery.delivery_id:
            return _receipt(delivery, "delivered", "", stored.at)
        same = (delivery.delivery_id, _short(delivery.signal), _short(delivery.key))
        return next((kept for kept in self.receipts if (kept.delivery_id, kept.signal, kept.key) == same), None)

    def known_receipts(self) -> list[Receipt]:
        """All receipts still known, oldest first: of every stored value, and the newest of all others (spec §3.4)."""
        kept = {(receipt.signal, receipt.key) for receipt in self.receipts if receipt.answer == "delivered"}
        dropped = [receipt for receipt in self._of_values() if (receipt.signal, receipt.key) not in kept]
        return [*sorted(dropped, key=lambda receipt: receipt.at), *self.receipts]

    def last_receipts(self, max_bytes: int) -> tuple[Receipt, ...]:
        """The newest receipts that fit into `max_bytes`, oldest first: what is kept of them after the task's end."""
        kept: list[Receipt] = []
        for receipt in reversed(self.known_receipts()):
            max_bytes -= receipt.size
            if max_bytes < 0:
                break
            kept.append(receipt)
        return tuple(reversed(kept))

    def consume(self, key: SignalKey) -> None:
        """The key's value woke a park: it serves no second wait, and stays readable (spec §3.8).

        Raises:
            ValueError: the key holds no unused value.
        """
        state = self.state(key)
        if not state.is_unused:
            raise ValueError(f"key {str(key)!r} holds no unused value")
        if state.early:
            self.early_bytes -= _cost(key, state.stored)
        self._set(key, state.model_copy(update={"consumed": True, "early": False}))

    def expire(self, key: SignalKey) -> None:
        """The deadline passed before a value came; a key that holds one stays as it is (spec §3.7)."""
        state = self.state(key)
        if state.stored is None and not state.expired:
            self.used_bytes += _cost(key, None)
            self._set(key, KeyState(expired=True))

    @property
    def _left(self) -> int:
        return QUOTA_BYTES - self.used_bytes - self.receipt_bytes

    def _full(self, delivery: Delivery, awaited: Sequence[SignalKey]) -> str | None:
        size = _cost(delivery.target, delivery)
        if delivery.target not in awaited:
            left = min(self._left, EARLY_BYTES - self.early_bytes)
        else:
            held = sum(_cost(key, state.stored) for key in awaited if (state := self.state(key)).is_unused)
            # The first value of a park has room whatever its size, or the park could go deaf.
            left = PARK_QUOTA_BYTES - held if held else size
        return f"task_full: the value needs {size} bytes, {max(left, 0)} are left" if size > left else None

    def _store(self, delivery: Delivery, version: int, now: datetime, *, early: bool) -> None:
        stored = Stored(value=delivery.value, version=version, at=now, delivery_id=delivery.delivery_id)
        size = _cost(delivery.target, stored)
        self.used_bytes += size
        self.early_bytes += size if early else 0
        self._set(delivery.target, KeyState(stored=stored, early=early))

    def _set(self, key: SignalKey, state: KeyState) -> None:
        self.keys.setdefault(key.signal, {})[key.key] = state

    def _keep(self, receipt: Receipt) -> None:
        self.receipts.append(receipt)
        self.receipt_bytes += receipt.size
        while len(self.receipts) > MAX_RECEIPTS or self.receipt_bytes > RECEIPT_BYTES:
            self.receipt_bytes -= self.receipts.pop(0).size

    def _of_values(self) -> Iterator[Receipt]:
        for signal, by_key in self.keys.items():
            for key, state in by_key.items():
                if (stored := state.stored) is not None:
                    delivery = Delivery(signal=signal, key=key, delivery_id=stored.delivery_id)
                    yield _receipt(delivery, "delivered", "", stored.at)


def _cost(key: SignalKey, held: Delivery | Stored | None) -> int:
    names = [key.signal, key.key] if held is None else [key.signal, key.key, held.delivery_id]
    return json_size(names) + KEY_BYTES + (0 if held is None else json_size(held.value))


def _receipt(delivery: Delivery, answer: Answer, reason: str, at: datetime) -> Receipt:
    return Receipt(
        delivery_id=clean(delivery.delivery_id, MAX_DELIVERY_ID),
        signal=_short(delivery.signal),
        key=_short(delivery.key),
        answer=answer,
        at=at,
        reason=clean(reason, MAX_REASON),
    )


def _short(name: str) -> str:
    if len(name) <= _SHORT:
        return name
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:16]
    return f"{clean(name, _SHORT - 17)}#{digest}"
