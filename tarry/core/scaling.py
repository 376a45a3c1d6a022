"""How many workers a supervisor keeps: when it starts and stops them, and how soon it replaces one (spec §9.4).

A machine without a clock. It is told what was seen and what became of workers, and says how many to start or stop. It
knows their number, not which they are.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from tarry.core.wake_plan import WakePlan, Why

Cause = Literal["poke", "backlog", "running", "deadline", "overdue", "minimum", "growth", "replacement"]

_SEEN: dict[Why, Cause] = {"": "running", "backlog": "backlog", "running": "running", "deadline": "overdue"}

_SURE = 2
"""Looks in a row that must find nothing: while a worker takes a task, neither queue nor state tells of it."""


@dataclass(frozen=True)
class ScalingRules:
    """What a supervisor goes by.

    Attributes:
        fewest: workers that run even when all is parked.
        most: workers that run at a time, those that are stopping not counted.
        quiet: for how long nothing must be active before workers above the fewest are stopped.
        ahead: how long before a deadline they are started.
        grow_after: for how long tasks must have waited, with every worker serving, before there is one more.
        first_pause: between the death of a worker and its successor; each death in a row doubles it.
        longest_pause: which it does not exceed.
        sound: a worker that has lived for so long ends the row.
    """

    fewest: int = 0
    most: int = 1
    quiet: timedelta = timedelta(seconds=60)
    ahead: timedelta = timedelta(seconds=10)
    grow_after: timedelta = timedelta(seconds=10)
    first_pause: timedelta = timedelta(seconds=1)
    longest_pause: timedelta = timedelta(seconds=60)
    sound: timedelta = timedelta(seconds=60)


@dataclass(frozen=True)
class Start:
    """Workers to start, what for, and when that came up: the poke, the look that saw it, the deadline, the death."""

    number: int
    cause: Cause
    since: datetime


@dataclass(frozen=True)
class Stop:
    """Workers to stop in order."""

    number: int


@dataclass
class Scaling:
    """One supervisor's view of one task queue.

    Attributes:
        size: how many workers are wanted.
        running: how many were started and have neither ended nor been told to.
        serving: how many of those are ready.
        deaths: of workers that nobody told to end, in a row.
        not_before: no worker is started earlier.
    """

    rules: ScalingRules
    size: int = 0
    running: int = 0
    serving: int = 0
    deaths: int = 0
    not_before: datetime | None = None
    _plan: WakePlan | None = None
    _idle_looks: int = 0
    _idle_since: datetime | None = None
    _behind_since: datetime | None = None
    _wish: tuple[Cause, datetime] | None = field(default=None)

    def saw(self, plan: WakePlan, now: datetime) -> None:
        """A look at the queue is over."""
        self._plan = plan
        if plan.active:
            self._stay_awake()
            self._want(1, _SEEN[plan.why], now)
        else:
            self._idle_looks += 1
            self._idle_since = self._idle_since or now
        is_behind = plan.why == "backlog" and 0 < self.size == self.serving
        self._behind_since = (self._behind_since or now) if is_behind else None

    def poked(self, at: datetime) -> None:
        """Somebody says that work has come, at that time."""
        self._stay_awake()
        self._want(1, "poke", at)

    def ready(self) -> None:
        """A worker serves."""
        self.serving += 1

    def died(self, now: datetime, *, lived: timedelta, was_ready: bool) -> None:
        """A worker ended that was not told to; `lived` since it was started."""
        self.running -= 1
        self.serving -= was_ready
        self.deaths = 1 if lived >= self.rules.sound else self.deaths + 1
        # Whoever doubles for a year would leave the numbers there are.
        pause = self.rules.first_pause * 2 ** min(self.deaths - 1, 16)
        self.not_before = now + min(pause, self.rules.longest_pause)
        self._wish = ("replacement", now)

    def leaves(self, *, was_ready: bool) -> None:
        """A worker that `decide` had stopped was told to: one that got as far as serving ends the row of deaths."""
        self.running -= 1
        self.serving -= was_ready
        if was_ready:
            self.deaths = 0
            self.not_before = None

    def decide(self, now: datetime) -> Start | Stop | None:
        """What to do now. A start counts as done; each stop is told with `leaves`."""
        self._want(self.rules.fewest, "minimum", now)
        if (due := self._due()) is not None and due - self.rules.ahead <= now:
            self._want(1, "deadline", due)
        if self._is_over(self._behind_since, self.rules.grow_after, now) and self.size < self.rules.most:
            self._want(self.size + 1, "growth", now)
            self._behind_since = None
        if self._is_quiet(now):
            self.size = self.rules.fewest
        if self.running > self.size:
            return Stop(self.running - self.size)
        if self.running < self.size and (self.not_before is None or self.not_before <= now):
            cause, since = self._wish or ("minimum", now)
            started = Start(self.size - self.running, cause, since)
            self.running, self._wish = self.size, None
            return started
        return None

    def next_moment(self, now: datetime) -> datetime | None:
        """When to decide again although nothing was seen; None: nothing is planned."""
        planned = []
        if self.running < self.size and self.not_before is not None:
            planned.append(self.not_before)
        if (due := self._due()) is not None and self.size == 0:
            planned.append(due - self.rules.ahead)
        if self._idle_since is not None and self.size > self.rules.fewest:
            planned.append(self._idle_since + self.rules.quiet)
        return min((moment for moment in planned if moment > now), default=None)

    def _due(self) -> datetime | None:
        return self._plan.at if self._plan is not None else None

    def _stay_awake(self) -> None:
        self._idle_looks, self._idle_since = 0, None

    def _want(self, size: int, cause: Cause, since: datetime) -> None:
        if self.size < size:
            self.size = size
            self._stay_awake()
            self._wish = (cause, since)

    def _is_quiet(self, now: datetime) -> bool:
        """Whether workers rest, and are not needed again before they would have rested for as long once more."""
        if self._idle_looks < _SURE or not self._is_over(self._idle_since, self.rules.quiet, now):
            return False
        due = self._due()
        return due is None or due - self.rules.ahead > now + self.rules.quiet

    @staticmethod
    def _is_over(since: datetime | None, wait: timedelta, now: datetime) -> bool:
        return since is not None and now - since >= wait
