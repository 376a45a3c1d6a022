"""Any interleaving of what can happen to a waiting task keeps the rules of spec §3.

The machines run beside a model that knows none of their code: a dictionary of keys, and lists of what was told.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from pydantic import BaseModel

from signals import (
    Box,
    BoxFull,
    Delivery,
    InvalidPark,
    Park,
    Receipt,
    Signal,
    SignalKey,
    Sleep,
    Wake,
    commit,
    judge,
    park,
    wake,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KIB = 1024


class Reply(BaseModel):
    n: int
    text: str = ""


def add_n(value: Any, version: int) -> Any:
    if value["old"] == "broken":
        raise RuntimeError("no way to bring it up to date")
    return {"n": value["old"]}


REPLY = Signal("app.reply", 2, Reply, add_n)
TOKENS: dict[str, Signal[Any]] = {"app.reply": REPLY, "app.text": Signal("app.text", 1, str)}

NAMES = ["a", "b/\n😀"]
KEYS = [SignalKey(signal, name) for signal in TOKENS for name in NAMES]

Kind = tuple[str, Any, int | None]
VALID: dict[str, Kind] = {
    "current, version omitted": ("app.reply", {"n": 1}, None),
    "current, 60 KiB": ("app.reply", {"n": 2, "text": "x" * 60 * KIB}, 2),
    "older": ("app.reply", {"old": 3}, 1),
    "empty text": ("app.text", "", 1),
    "text of 130 KiB": ("app.text", "y" * 130 * KIB, None),
    "text as large as may be": ("app.text", "z" * (256 * KIB - 2), None),
}
INVALID: dict[str, Kind] = {
    "number as text": ("app.reply", {"n": "1"}, None),
    "fraction": ("app.reply", {"n": 1.5}, None),
    "unknown field": ("app.reply", {"n": 1, "junk": 1}, None),
    "encoded twice": ("app.reply", json.dumps({"n": 1}), None),
    "newer": ("app.reply", {"n": 1}, 3),
    "older than the first": ("app.reply", {"n": 1}, 0),
    "migration raises": ("app.reply", {"old": "broken"}, 1),
    "nothing": ("app.reply", None, None),
    "misspelt signal": ("app.repyl", {"n": 1}, None),
    "text too large": ("app.text", "z" * (256 * KIB - 1), None),
    "lone surrogate": ("app.text", "\ud800", None),
    "no number": ("app.text", math.nan, None),
}


def taken(*parts: Any) -> int:
    """The bytes that names and a value take, and 200 for the key's marks."""
    return sum(len(json.dumps(part, ensure_ascii=False, separators=(",", ":")).encode()) for part in parts) + 200


@dataclass
class Task:
    """The rules, written down naively."""

    values: dict[SignalKey, Any] = field(default_factory=dict)
    used: list[SignalKey] = field(default_factory=list)
    expired: list[SignalKey] = field(default_factory=list)
    memos: dict[str, str] = field(default_factory=dict)
    told: dict[tuple[str, SignalKey], str] = field(default_factory=dict)
    early: dict[SignalKey, int] = field(default_factory=dict)
    waited: dict[SignalKey, int] = field(default_factory=dict)
    receipts: int = 0
    keys: tuple[SignalKey, ...] = ()
    until: datetime | None = None
    is_parked: bool = False
    is_closed: bool = False

    def own(self) -> int:
        return sum(self.waited.values()) + sum(len(key) + 2 + len(value) for key, value in self.memos.items())

    def is_over(self, now: datetime) -> bool:
        return self.is_parked and self.until is not None and self.until <= now

    def has_room(self, key: SignalKey, size: int) -> bool:
        if self.is_parked and key in self.keys:
            fresh = [one for one in self.keys if one in self.values and one not in self.used]
            held = sum((self.waited | self.early)[one] for one in fresh)
            return not fresh or held + size <= 256 * KIB
        early = sum(self.early.values())
        return early + size <= 320 * KIB and self.own() + early + self.receipts + size <= 512 * KIB

    def answer(self, key: SignalKey, is_valid: bool, delivery_id: str, size: int, now: datetime) -> str:
        if (delivery_id, key) in self.told:
            return self.told[delivery_id, key]
        if self.is_closed:
            return "closed"
        if not is_valid:
            return "invalid"
        if key in self.values:
            return "duplicate"
        if key in self.expired or (key in self.keys and self.is_over(now)):
            return "closed"
        return "delivered" if self.has_room(key, size) else "invalid"

    def deliver(self, key: SignalKey, value: Any, delivery_id: str, answer: str, size: int) -> None:
        if delivery_id:
            self.told[delivery_id, key] = answer
        if answer == "delivered":
            self.values[key] = value
            (self.waited if self.is_parked and key in self.keys else self.early)[key] = size

    def may_sleep(self, keys: list[SignalKey], has_deadline: bool) -> bool:
        spent = any(key in self.used or key in self.expired for key in keys)
        twice = any(keys.count(key) > 1 for key in keys)
        return bool(keys or has_deadline) and not spent and not twice and self.own() <= 512 * KIB

    def why_awake(self, now: datetime) -> Wake | None:
        for key in self.keys:
            if key in self.values and key not in self.used:
                return Wake(reason="signal", signal=key.signal, key=key.key)
        if self.is_over(now):
            return Wake(reason="expired" if self.keys else "time")
        return None

    def leave(self, woke: Wake) -> None:
        if woke.reason == "signal":
            key = SignalKey(woke.signal, woke.key)
            self.used.append(key)
            if key in self.early:
                self.waited[key] = self.early.pop(key)
        if woke.reason == "expired":
            self.expired += self.keys
            self.waited |= {key: taken([key.signal, key.key]) for key in self.keys}
        self.is_parked, self.keys, self.until = False, (), None


class WaitingTask(RuleBasedStateMachine):
    """A task and the world around it."""

    @initialize()
    def begin(self) -> None:
        self.box = Box()
        self.park: Park | None = None
        self.now = NOW
        self.model = Task()

    def standing(self) -> dict[str, Any]:
        parked = self.park
        return {
            "awaited": parked.keys if parked else (),
            "deadline_passed": parked is not None and parked.is_over(self.now),
            "closed": self.model.is_closed,
        }

    def deliver(self, kind: str, name: str, delivery_id: str) -> Receipt:
        is_valid = kind in VALID
        signal, value, version = VALID[kind] if is_valid else INVALID[kind]
        sent = Delivery(signal=signal, key=name, value=value, version=version, delivery_id=delivery_id)
        key = SignalKey(signal, name)
        size = taken([signal, name, delivery_id], value) if is_valid else 0
        expected = self.model.answer(key, is_valid, delivery_id, size, self.now)
        repeated = (delivery_id, key) in self.model.told

        invalid = judge(TOKENS, signal, value, version)
        assert (invalid is None) == is_valid
        before = self.box.used_bytes, len(self.box.receipts)
        peeked = self.box.answer(sent, invalid, **self.standing())
        assert before == (self.box.used_bytes, len(self.box.receipts))
        told = self.box.take(
            sent, invalid, version or TOKENS[signal].version if is_valid else 0, self.now, **self.standing()
        )

        assert (told.answer, told.reason) == peeked
        assert told.answer == expected, told
        assert len(self.box.receipts) == before[1] + (not repeated)
        if not repeated:
            self.model.deliver(key, value, delivery_id, expected, size)
            self.model.receipts = self.box.receipt_bytes
        return told

    @rule(
        kind=st.sampled_from(sorted(VALID)),
        name=st.sampled_from(NAMES),
        delivery_id=st.sampled_from(["", "", "d1", "d2"]),
    )
    def deliver_a_value(self, kind: str, name: str, delivery_id: str) -> None:
        self.deliver(kind, name, delivery_id)

    @rule(
        kind=st.sampled_from(sorted(INVALID)),
        name=st.sampled_from(NAMES),
        delivery_id=st.sampled_from(["", "d1", "d2"]),
    )
    def deliver_what_is_invalid(self, kind: str, name: str, delivery_id: str) -> None:
        told = self.deliver(kind, name, delivery_id)
        assert told.answer != "delivered" or delivery_id

    @precondition(lambda self: self.model.keys)
    @rule(at=st.integers(0, 2), nth=st.integers(0, 2))
    def deliver_what_is_awaited(self, at: int, nth: int) -> None:
        self.deliver_to(self.model.keys[at % len(self.model.keys)], nth)

    @precondition(lambda self: self.model.expired or self.model.used)
    @rule(at=st.integers(0, 5), nth=st.integers(0, 2))
    def deliver_after_the_wait(self, at: int, nth: int) -> None:
        spent = self.model.expired + self.model.used
        self.deliver_to(spent[at % len(spent)], nth)

    def deliver_to(self, key: SignalKey, nth: int) -> None:
        kinds = [kind for kind, (signal, _, _) in VALID.items() if signal == key.signal]
        self.deliver(kinds[nth], key.key, "")

    @precondition(lambda self: not self.model.is_closed)
    @rule(name=st.sampled_from(["m1", "m2", "m3"]), size=st.sampled_from([1, 90 * KIB, 200 * KIB]))
    def write_a_memo(self, name: str, size: int) -> None:
        total = self.model.own() + sum(self.model.early.values()) + self.model.receipts
        value = "m" * size
        if name not in self.model.memos and total + len(name) + 2 + size <= 512 * KIB:
            self.model.memos[name] = value
        try:
            assert self.box.memo(name, value) == self.model.memos.get(name)
        except BoxFull:
            assert name not in self.model.memos

    @precondition(lambda self: not self.model.is_closed and not self.model.is_parked)
    @rule(
        keys=st.lists(st.sampled_from(KEYS), max_size=2) | st.just([SignalKey("app.text", n) for n in "123"]),
        ahead=st.sampled_from([None, None, timedelta(0), -timedelta(days=1), timedelta(hours=1), timedelta(days=30)]),
        is_absolute=st.booleans(),
    )
    def go_to_sleep(self, keys: list[SignalKey], ahead: timedelta | None, is_absolute: bool) -> None:
        until = self.now + ahead if is_absolute and ahead is not None else ahead
        sleep = Sleep(checkpoint={"n": len(keys)}, until=until, signals=keys)
        try:
            self.park = park(sleep, self.box, self.now)
        except InvalidPark:
            assert not self.model.may_sleep(keys, ahead is not None)
            return
        assert self.model.may_sleep(keys, ahead is not None)
        self.model.is_parked, self.model.keys = True, tuple(keys)
        self.model.until = None if ahead is None else self.now + max(ahead, timedelta(0))

    @rule(span=st.sampled_from([timedelta(microseconds=1), timedelta(minutes=59), timedelta(days=1)]))
    def pass_the_time(self, span: timedelta) -> None:
        self.now += span

    @precondition(lambda self: self.model.is_parked)
    @rule()
    def look_for_a_wake(self) -> None:
        assert self.park is not None
        woke = wake(self.park, self.box, self.now)
        assert woke == self.model.why_awake(self.now)
        if woke is not None:
            commit(self.park, woke, self.box)
            self.park = None
            self.model.leave(woke)

    @precondition(lambda self: not self.model.is_closed)
    @rule(dice=st.integers(0, 9))
    def abort(self, dice: int) -> None:
        # Rarely, or most runs would be about a closed task.
        if dice == 0:
            self.park = None
            self.model.is_closed = True
            self.model.is_parked, self.model.keys, self.model.until = False, (), None

    @rule()
    def turn_over(self) -> None:
        box = Box.model_validate_json(self.box.model_dump_json())
        assert box == self.box
        self.box = box
        if self.park is not None:
            parked = Park.model_validate_json(self.park.model_dump_json())
            assert parked == self.park
            self.park = parked

    @invariant()
    def every_key_is_as_the_rules_say(self) -> None:
        for key in KEYS:
            state = self.box.state(key)
            assert (state.stored.value if state.stored else None) == self.model.values.get(key)
            assert (state.stored is not None) == (key in self.model.values)
            assert state.expired == (key in self.model.expired)
            assert state.consumed == (key in self.model.used)

    @invariant()
    def every_stored_value_is_read_in_the_current_shape(self) -> None:
        stored = self.box.state(SignalKey("app.reply", "a")).stored
        if stored is not None:
            assert isinstance(REPLY.read(stored.value, stored.version), Reply)

    @invariant()
    def deadline_of_a_park_never_moves(self) -> None:
        assert (self.park.until if self.park else None) == self.model.until
        assert (self.park is not None) == self.model.is_parked

    @invariant()
    def quotas_are_what_the_contents_take(self) -> None:
        assert self.box.early_bytes == sum(self.model.early.values())
        assert self.box.own_bytes == self.model.own()
        assert self.box.receipt_bytes == sum(receipt.size for receipt in self.box.receipts)

    def teardown(self) -> None:
        if hasattr(self, "box"):
            carried = len(self.box.model_dump_json().encode())
            assert carried <= self.box.used_bytes + self.box.receipt_bytes + KIB
            assert carried <= 1_400 * KIB


TestWaitingTask = WaitingTask.TestCase
TestWaitingTask.settings = settings(max_examples=150, stateful_step_count=40)
