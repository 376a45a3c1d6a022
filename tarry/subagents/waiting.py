"""`wait_agent`: a wait for what children end, which is a park: nothing runs for it, no place is taken (spec §17.43)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field

from signals.parking import Sleep
from tarry.acknowledged import Acknowledged
from tarry.api import ToolApi
from tarry.core.mail import STEER_KEY, STEERED
from tarry.core.results import MAX_DETAILS_BYTES
from tarry.core.subagents.protocol import AGENT_UPDATE, Updates
from tarry.subagents.telling import RESULT_BYTES, end_text, facts, refusals_are_results, working_lines
from tarry.tools import ToolResult, tool

DEFAULT_SECONDS = 30.0
MAX_SECONDS = 120.0
ROOM_FOR_NAMES = 100
"""Bytes that the names of the lists of ends take in the details."""


@dataclass(frozen=True)
class _Waiting:
    """The checkpoint: until when, for whom, and how often it has looked."""

    until: str
    agent: str
    looks: int = 1

    def sleep(self) -> Sleep:
        keys = [AGENT_UPDATE.key(str(self.looks)), STEERED.key(STEER_KEY)]
        return Sleep(asdict(self), until=datetime.fromisoformat(self.until), signals=keys)


@tool(replay="safe", hears_steers=True, result_bytes=RESULT_BYTES)
@refusals_are_results
async def wait_agent(
    api: ToolApi,
    agent: Annotated[str, Field(description="Path or id of one child; by default any of them")] = "",
    timeout_seconds: Annotated[
        float,
        Field(description="How long to wait at most: 30 by default, 120 at most; 0 only looks"),
    ] = DEFAULT_SECONDS,
) -> ToolResult | Sleep:
    """Wait until an agent that you started has ended its turn, and read how. What was read is not told again.

    A wait that brings nothing says nothing of the agents: they go on.
    """
    if api.wake is None:
        until = api.now() + timedelta(seconds=min(max(timeout_seconds, 0.0), MAX_SECONDS))
        waiting = _Waiting(until.isoformat(), agent)
    else:
        waiting = _Waiting(**api.checkpoint)
        waiting = replace(waiting, looks=waiting.looks + 1)
    is_last = _is_over(api, waiting)
    updates = await api.agents.read(waiting.agent, key="" if is_last else str(waiting.looks))
    if updates.completions or is_last or not (updates.working or updates.held):
        return _told(api, updates)
    return waiting.sleep()


def _is_over(api: ToolApi, waiting: _Waiting) -> bool:
    was_steered = api.wake is not None and api.wake.signal == STEERED.name
    return was_steered or api.now() >= datetime.fromisoformat(waiting.until)


def _told(api: ToolApi, updates: Updates) -> ToolResult:
    parts = [end_text(one) for one in updates.completions]
    if updates.more:
        parts.append(f"{updates.more} more have ended: wait again to read of them.")
    if updates.working:
        since = working_lines(updates.working, api.now(), updates.more_working)
        parts.append(f"{'Still working' if parts else _nothing(api)}:\n{since}")
    elif not parts and updates.held:
        parts.append(f"Nothing yet: {updates.held} have ended, and another call is about to tell of that.")
    elif not parts:
        parts.append("Nothing to wait for: no agent of yours works, and all that ended was read already.")
    if updates.already_read:
        more = f" and {updates.more_already_read} more" if updates.more_already_read else ""
        parts.append(f"Already read: {', '.join(updates.already_read)}{more}.")
    acks = (api.agents.read_done,) if updates.completions else ()
    return Acknowledged("\n\n".join(parts), details=_details(updates), acks=acks)


def _details(updates: Updates) -> dict[str, Any]:
    """The same for programs: of ends the first ones that fit in, as all of them are in the text."""
    others = {
        "more": updates.more,
        "working": [one.model_dump(mode="json") for one in updates.working],
        "more_working": updates.more_working,
        "already_read": list(updates.already_read),
        "more_already_read": updates.more_already_read,
    }
    room = MAX_DETAILS_BYTES - ROOM_FOR_NAMES - _size(others)
    told: list[dict[str, Any]] = []
    for one in map(facts, updates.completions):
        room -= _size(one) + (_size(one["path"]) if one["is_error"] else 0)
        if room < 0:
            break
        told.append(one)
    failed = [one["path"] for one in told if one["is_error"]]
    return {"updates": told, "more_updates": len(updates.completions) - len(told), "failed": failed, **others}


def _size(data: Any) -> int:
    """As JSON in a list, or a little more than that."""
    return len(json.dumps(data)) + len(", ")


def _nothing(api: ToolApi) -> str:
    if api.wake is not None and api.wake.signal == STEERED.name:
        return "Nothing yet; somebody has spoken to you meanwhile. Working"
    return "Nothing yet, which says nothing against them: go on, or wait again. Working"
