"""What a supervisor prints: one line an event, for people or as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from tarry.core.routing import DEFAULT
from workers.supervised import Tell, how_it_ended

_FOR = {
    "poke": "a delivery",
    "backlog": "tasks that wait",
    "running": "work that runs",
    "deadline": "the next deadline",
    "overdue": "a deadline that has passed",
    "minimum": "the fewest that are wanted",
    "growth": "tasks that keep waiting",
    "replacement": "one that died",
}
_SINCE = {"poke": "the delivery came", "deadline": "the deadline", "replacement": "the death"}
_WHY = {"backlog": "tasks wait for a worker", "running": "work runs", "deadline": "a deadline has passed"}


def teller(write: Callable[[str], None], now: Callable[[], datetime], *, as_json: bool) -> Tell:
    """What writes each event as one line."""

    def tell(event: str, **facts: Any) -> None:
        at = now()
        if as_json:
            write(json.dumps({"event": event, "at": at.isoformat(), **facts}, ensure_ascii=False))
        else:
            write(f"{at.astimezone():%H:%M:%S} {_LINES[event](facts)}")

    return tell


def _ready(facts: Mapping[str, Any]) -> str:
    pokes = f"deliveries are heard of at {facts['socket']}" if facts["socket"] else "deliveries are found by looking"
    most = facts["max"]
    special = [name for name in facts["serves"] if name != DEFAULT]
    queue = f"{facts['task_queue']} ({', '.join(facts['serves'])})" if special else facts["task_queue"]
    return f"ready: task queue {queue}, {facts['min']} to {most} workers for {facts['app']}; {pokes}"


def _plan(facts: Mapping[str, Any]) -> str:
    if facts["active"]:
        return f"active: {_WHY.get(facts['why'], facts['why'])}"
    return f"idle until {datetime.fromisoformat(facts['due']).astimezone():%F %T}" if facts["due"] else "idle"


def _working(facts: Mapping[str, Any]) -> str:
    seconds = facts["seconds"]
    since = _SINCE.get(facts["cause"], "it was seen")
    ways = f"started {_shift(seconds['started'])}, ready {_shift(seconds['ready'])}"
    return f"worker {facts['worker']} works {_shift(seconds['working'])} s after {since} ({ways}): {facts['work']}"


def _shift(seconds: float) -> str:
    return f"{seconds:.2f}"


_LINES: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "ready": _ready,
    "plan": _plan,
    "poked": lambda facts: f"poked: {facts['what']}",
    "unreachable": lambda facts: f"{facts['reason']}; looking goes on",
    "started": lambda facts: f"worker {facts['worker']} starts for {_FOR[facts['cause']]}; log {facts['log']}",
    "failed": lambda facts: f"worker {facts['worker']} did not come up: {facts['reason']}",
    "serving": lambda facts: f"worker {facts['worker']} serves (pid {facts['pid']})",
    "working": _working,
    "stopping": lambda facts: f"worker {facts['worker']} is told to stop: {facts['why']}",
    "stopped": lambda facts: f"worker {facts['worker']} ended {how_it_ended(facts['code'])}",
    "died": lambda facts: (
        f"worker {facts['worker']} died {how_it_ended(facts['code'])}, {facts['deaths']} in a row; "
        f"the next one not before {facts['pause']:g} s"
    ),
    "ended": lambda facts: "ended; no worker of this one runs",
}
