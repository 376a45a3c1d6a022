"""What the model reads of agents: how a turn ended, what works still, and why something was refused (spec §17.45)."""

from __future__ import annotations

import functools
import json
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import Any, ParamSpec

from signals.parking import Sleep
from tarry.acknowledged import Acknowledged
from tarry.client.errors import AgentRefused, NoSuchAgents, ServerUnavailable
from tarry.core.protocol import PlainSignal
from tarry.core.subagents.completions import MAX_UNREAD
from tarry.core.subagents.protocol import Completion, Working
from tarry.tools import RetryTool, ToolResult

P = ParamSpec("P")
Told = ToolResult | Sleep

RESULT_BYTES = (256 + MAX_UNREAD) * 1024
"""What a call may bring of answers: 256 KiB of them, and the words around each, of 1 KiB: what is cut is not read."""
NOTHING = "(it said nothing)"


def refusals_are_results(function: Callable[P, Awaitable[Told]]) -> Callable[P, Awaitable[Told]]:
    """A tool that tells the model, as an error, why the tree of agents refused what it asked for."""

    @functools.wraps(function)
    async def told(*args: P.args, **kwargs: P.kwargs) -> Told:
        try:
            return await function(*args, **kwargs)
        except AgentRefused as error:
            return ToolResult(str(error), is_error=True, details={"code": error.code})
        except ServerUnavailable as error:  # what was asked for may be done: asked again, it is done once
            raise RetryTool(str(error)) from error
        except NoSuchAgents as error:
            return ToolResult(str(error), is_error=True, details={"code": "invalid"})

    return told


def answer_result(ended: Completion, read_done: PlainSignal, *, is_data: bool) -> Acknowledged:
    """The end of a child's turn as the result of the call that waited for it: its answer; anything else is an error.

    `is_data`: the answer was to be JSON, and is given as that.
    """
    if is_data and not _is_data(ended):
        ended = ended.model_copy(update={"status": "unanswered", "reason": ended.reason or "invalid_output"})
    details = facts(ended)
    if is_failure(ended):
        return Acknowledged(end_text(ended), is_error=True, details=details, acks=(read_done,))
    answer = json.loads(ended.text) if is_data and not ended.is_cut else None
    if answer is not None:
        details["answer"] = answer
    return Acknowledged(ended.text + _cut(ended), details=details, structured=answer, acks=(read_done,))


def _is_data(ended: Completion) -> bool:
    """Of what was cut nobody can say. An input that came as a run ended may have been answered in a run of its own."""
    try:
        json.loads(ended.text)
    except ValueError:
        return ended.is_cut
    return True


def is_failure(ended: Completion) -> bool:
    """Whether the turn brought no real answer."""
    return ended.status != "done" or not ended.text.strip()


def end_text(ended: Completion) -> str:
    """How a turn ended: the agent, what became of it and why, and its answer or what it said last."""
    head = f"{ended.path} {_how(ended)}"
    if ended.working:
        head += f", while {', '.join(ended.working)} of its own still worked"
    if not ended.text.strip():
        return f"{head}.\n{NOTHING}"
    said = "" if ended.status == "done" else "What it said last:\n"
    return f"{head}.\n{said}{ended.text}{_cut(ended)}"


def _how(ended: Completion) -> str:
    if ended.status == "done":
        return "ended its turn"
    why = f": {ended.detail}" if ended.detail else ""
    return f"gave no answer ({ended.reason}{why})"


def _cut(ended: Completion) -> str:
    if not ended.is_cut:
        return ""
    return f"\n[cut here; the whole is in its conversation, {ended.agent_id}]"


def facts(ended: Completion) -> dict[str, Any]:
    """The same for programs, without the text."""
    return {**ended.model_dump(mode="json", exclude={"text", "blob", "spent"}), "is_error": is_failure(ended)}


def working_lines(working: Iterable[Working], now: datetime, more: int = 0) -> str:
    """A line for each agent that works: what it does, since when, what it waits for; and how many more there are."""
    lines = [f"- {one.path}: {_doing(one, now)}" for one in working]
    return "\n".join([*lines, *([f"- and {more} more"] if more else [])])


def _doing(one: Working, now: datetime) -> str:
    since = "" if one.since is None else f" since {one.since:%H:%M:%S} UTC ({span(now - one.since)})"
    waits = f", waits for {one.detail}" if one.detail else ""
    return f"{one.state}{since}{waits}"


def span(time: Any) -> str:
    """A time for people."""
    seconds = max(int(time.total_seconds()), 0)
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds / 3600:.1f} h"
