"""Parking: what a task may wait for, what wakes it, and who wins when several do.

Pure; `now` comes in. A sleep names a deadline, keys, or both. Of several keys the first listed that holds
an unused value wins; a deadline expires every listed key that holds none (spec §3.6 to §3.9). A wait names
other tasks, and a policy says how many ends it needs (spec §4.9).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict

from signals.box import QUOTA_BYTES, Box
from signals.data import NotJson, json_size
from signals.tokens import SignalKey

MAX_KEYS = 64
MAX_TASKS = 256
MAX_KEYS_BYTES = 64 * 1024
"""Of all keys of a park together, as JSON."""
MAX_PARK_BYTES = 256 * 1024
"""Of its checkpoint and question, as JSON."""
MAX_AHEAD = timedelta(days=36_525)
"""A hundred years: the server counts nanoseconds, and has none left for much later times."""


class Ask(BaseModel):
    """The question a person sees while work is parked."""

    model_config = ConfigDict(frozen=True)

    text: str
    for_whom: str = ""


@dataclass(frozen=True)
class Sleep:
    """Returned by a tool or a phase to park until a time, until a signal, or whichever comes first.

    Args:
        checkpoint: JSON data that the woken run reads.
        until: an aware datetime, or a span from now. Fixed once: reruns and restarts do not move it.
        signals: keys; in their order, when several hold a value.
        ask: what a person is shown; a text, or an `Ask` that also says whom it is for.
    """

    checkpoint: Any = None
    until: datetime | timedelta | None = None
    signals: Sequence[SignalKey] = ()
    ask: Ask | str | None = None


Policy = Literal["any", "fail_fast", "all_settled"]
"""`any`: the first end wakes. `fail_fast`: the first failure, or all ends. `all_settled`: all ends."""


@dataclass(frozen=True)
class Wait:
    """Returned by a tool or a phase to park until other tasks end.

    Args:
        on: ids of tasks; those that are not this one's own children only with `all_settled`.
        policy: how many ends it needs.
        checkpoint: JSON data that the woken run reads.
    """

    on: Sequence[str]
    policy: Policy = "all_settled"
    checkpoint: Any = None


class InvalidPark(ValueError):
    """A park that could never be woken, or would wake for ever. The text is for the author."""


class Park(BaseModel):
    """A stored sleep, whose `until` is absolute and not before `since`, or a stored wait `on` tasks.

    `resume`: whoever parked did not ask to, and goes on as if it had been interrupted.
    """

    model_config = ConfigDict(frozen=True)

    since: datetime
    until: datetime | None = None
    keys: tuple[SignalKey, ...] = ()
    on: tuple[str, ...] = ()
    policy: Policy = "all_settled"
    resume: bool = False
    checkpoint: Any = None
    ask: Ask | None = None

    def awaits(self, key: SignalKey) -> bool:
        """Whether this park lists the key."""
        return key in self.keys

    def is_over(self, now: datetime) -> bool:
        """Whether the deadline has passed; at the very instant it has."""
        return self.until is not None and now >= self.until


class Wake(BaseModel):
    """Why parked work runs again: names the key, never the value (spec §3.6)."""

    model_config = ConfigDict(frozen=True)

    reason: Literal["time", "expired", "signal", "tasks"]
    signal: str = ""
    key: str = ""
    ended: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"signal {self.signal}/{self.key}" if self.reason == "signal" else self.reason


def park(sleep: Sleep, box: Box, now: datetime) -> Park:
    """Fix the deadline of a sleep and check that it can be woken, once (spec §3.8, §3.9).

    A deadline in the past becomes `now`: such a park expires at once. Fixing what was fixed moves nothing.

    Raises:
        InvalidPark: neither deadline nor keys; a deadline that is naive, no time at all, or over a hundred
            years ahead; a key nobody can deliver under, listed twice, or used up by an earlier wake or
            deadline; checkpoint or question are no JSON data or too large; the task holds too much already.
    """
    until = _deadline(sleep.until, now)
    keys = _keys(sleep.signals, box)
    if until is None and not keys:
        raise InvalidPark("a sleep needs until, signals, or both")
    ask = Ask(text=sleep.ask) if isinstance(sleep.ask, str) else sleep.ask
    if not isinstance(ask, Ask | None):
        raise InvalidPark(f"ask must be a text or an Ask, not a {type(ask).__name__}")
    _check_size("checkpoint and ask", [sleep.checkpoint, ask and ask.model_dump()], MAX_PARK_BYTES)
    # What came without being waited for does not count: no sender can keep a task from parking.
    if box.own_bytes > QUOTA_BYTES:
        raise InvalidPark(f"task_full: it holds {box.own_bytes} bytes of memos and values, {QUOTA_BYTES} are allowed")
    return Park(since=now, until=until, keys=keys, checkpoint=sleep.checkpoint, ask=ask)


def park_on(wait: Wait, now: datetime) -> Park:
    """Check that a wait can end.

    Raises:
        InvalidPark: no tasks, over 256 of them, one that is no id or is listed twice, an unknown policy; a checkpoint
            that is no JSON data or too large.
    """
    if not isinstance(wait.on, list | tuple) or not all(isinstance(task, str) and task for task in wait.on):
        raise InvalidPark("on must be a list or tuple of task ids")
    if not 0 < len(wait.on) <= MAX_TASKS:
        raise InvalidPark(f"a wait lists 1 to {MAX_TASKS} tasks, this one {len(wait.on)}")
    if len(set(wait.on)) < len(wait.on):
        raise InvalidPark("a task is listed twice")
    if wait.policy not in get_args(Policy):
        raise InvalidPark(f"policy must be one of {', '.join(get_args(Policy))}")
    _check_size("the ids", list(wait.on), MAX_KEYS_BYTES)
    _check_size("the checkpoint", wait.checkpoint, MAX_PARK_BYTES)
    return Park(since=now, on=tuple(wait.on), policy=wait.policy, checkpoint=wait.checkpoint)


def wake(park: Park, box: Box, now: datetime, ended: Mapping[str, bool] | None = None) -> Wake | None:
    """Why the park ends now, or None. A value wins over a deadline: one that came late is never stored.

    Args:
        ended: the tasks that are known to be over, and whether each failed.
    """
    if park.on:
        return _by_tasks(park, ended or {})
    for key in park.keys:
        if box.state(key).is_unused:
            return Wake(reason="signal", signal=key.signal, key=key.key)
    if park.is_over(now):
        return Wake(reason="expired" if park.keys else "time")
    return None


def _by_tasks(park: Park, ended: Mapping[str, bool]) -> Wake | None:
    over = tuple(task for task in park.on if task in ended)
    is_due = len(over) == len(park.on)
    is_due = is_due or (park.policy == "any" and bool(over))
    is_due = is_due or (park.policy == "fail_fast" and any(ended[task] for task in over))
    return Wake(reason="tasks", ended=over) if is_due else None


def commit(park: Park, reason: Wake, box: Box) -> None:
    """Take the wake: consume its key, or expire every listed key without a value (spec §3.7, §3.8).

    Raises:
        ValueError: the value was taken before.
    """
    if reason.reason == "signal":
        box.consume(SignalKey(reason.signal, reason.key))
    elif reason.reason == "expired":
        for key in park.keys:
            box.expire(key)


def _keys(signals: object, box: Box) -> tuple[SignalKey, ...]:
    if not isinstance(signals, list | tuple):
        raise InvalidPark(f"signals must be a list or tuple of keys, not a {type(signals).__name__}")
    if len(signals) > MAX_KEYS:
        raise InvalidPark(f"a sleep lists at most {MAX_KEYS} keys, this one {len(signals)}")
    keys = tuple(_checked(key, box) for key in signals)
    if len(set(keys)) < len(keys):
        raise InvalidPark("a key is listed twice")
    _check_size("the keys", [[key.signal, key.key] for key in keys], MAX_KEYS_BYTES)
    return keys


def _checked(key: object, box: Box) -> SignalKey:
    if not isinstance(key, SignalKey):
        raise InvalidPark(f"signals must hold keys made by a token's key(), not a {type(key).__name__}")
    if (problem := key.problem) is not None:
        raise InvalidPark(problem)
    state = box.state(key)
    if state.consumed:
        raise InvalidPark(f"key {str(key)[:200]!r} has woken this task before; a second wait needs another key")
    if state.expired:
        raise InvalidPark(f"key {str(key)[:200]!r} has expired; another wait needs another key")
    return key


def _check_size(what: str, data: Any, limit: int) -> None:
    try:
        size = json_size(data)
    except NotJson as error:
        raise InvalidPark(f"{what}: {error}") from None
    if size > limit:
        raise InvalidPark(f"{what} take {size} bytes, {limit} are allowed; park with a reference instead")


def _deadline(until: object, now: datetime) -> datetime | None:
    now = now.astimezone(UTC)  # between instants of one local zone Python reckons by the clock on the wall
    if until is None:
        return None
    if isinstance(until, datetime):
        if until.utcoffset() is None:
            raise InvalidPark("until is a datetime without a time zone; give an aware one")
        ahead = until - now
    elif isinstance(until, timedelta):
        ahead = until
    else:
        raise InvalidPark(f"until must be an aware datetime or a timedelta, not a {type(until).__name__}")
    if ahead > MAX_AHEAD:
        raise InvalidPark("until lies over a hundred years ahead; leave it out to wait for signals alone")
    return now + max(ahead, timedelta(0))
