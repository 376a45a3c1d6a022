"""Payloads of a run's hooks: after a round of tools, before an answer stands, and after its end (spec §6.5).

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from tarry.core.agent import ForAgent
from tarry.core.inbox import MAX_CONTENT
from tarry.core.messages import AssistantMessage, Frozen, ToolMessage
from tarry.core.protocol import ResolvedCall, RunStatus, UnansweredReason
from tarry.core.task_state import TaskOutcome
from tarry.core.text import bound_text
from tarry.core.transcript import Entry

ASK_RUN_HOOKS = "tarry.ask-run-hooks"

Moment = Literal["after_tools", "on_yield", "after_run"]


class RoundResult(Frozen):
    """One result of a round."""

    tool: str
    text: str
    is_error: bool
    code: str


class RunEnd(Frozen):
    """How a run ended, and which submissions ended with it."""

    status: RunStatus
    reason: UnansweredReason
    detail: str
    request_ids: tuple[str, ...]


class RunHookInput(ForAgent):
    """What a run's hooks are told. `text` is what the model said beside its calls, or its answer."""

    moment: Moment
    conversation_id: str
    generation_id: str
    turn: int
    text: str
    results: tuple[RoundResult, ...] = ()
    ended: RunEnd | None = None


class RunHookAnswer(Frozen):
    """What they answer: tasks to wait for, or an input that sends the agent back at once."""

    tasks: tuple[ResolvedCall, ...] = ()
    go_on: str | None = None
    problems: tuple[str, ...] = ()


def last_round(entries: Sequence[Entry]) -> tuple[str, tuple[RoundResult, ...]]:
    """The text of the newest response among `entries`, and the results that came after it."""
    results: list[RoundResult] = []
    for entry in reversed(entries):
        if isinstance(entry.message, AssistantMessage):
            return entry.message.text, tuple(reversed(results))
        if isinstance(entry.message, ToolMessage):
            code = entry.tool.code if entry.tool else ""
            results.append(
                RoundResult(
                    tool=entry.message.name, text=entry.message.text, is_error=entry.message.is_error, code=code
                )
            )
    return "", tuple(reversed(results))


def terminates(outcomes: list[TaskOutcome | None]) -> bool:
    """Whether a task after a round ends the run: it completed with `{"terminate": true}`."""
    return any(_completed(outcome).get("terminate") is True for outcome in outcomes)


def continuation(outcomes: list[TaskOutcome | None]) -> str | None:
    """The input with which the first task, in the order they were created, sends the agent back to work."""
    for outcome in outcomes:
        text = _completed(outcome).get("continue")
        if isinstance(text, str) and (words := input_text(text)):
            return words
    return None


def input_text(text: str) -> str:
    """The input that a hook gives, no longer than a person's may be."""
    return bound_text(text, max_bytes=MAX_CONTENT, max_lines=MAX_CONTENT).text


def _completed(outcome: TaskOutcome | None) -> dict[str, Any]:
    if outcome is None or outcome.status != "completed" or not isinstance(outcome.result, dict):
        return {}
    return outcome.result
