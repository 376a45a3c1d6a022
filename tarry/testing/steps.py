"""The steps of a scripted model: what it says, which tools it calls, how it fails.

A step is plain data. Only a real model's shapes can be written, its bad ones included: raw arguments,
chosen call ids, an answer cut by length, an empty one.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tarry.core.messages import StopReason
from tarry.models import ModelErrorKind, ModelRequest


@dataclass(frozen=True)
class Call:
    """One tool call. `call_id` None: the script gives it one that is unique in the conversation."""

    tool: str
    arguments: str
    call_id: str | None = None


@dataclass(frozen=True)
class Reply:
    """One response. Its text is streamed in `chunks` pieces, each after `delay` seconds.

    `times` None: the step answers for good. A number: so many requests get this reply and then the
    next step, which only a reply the context leaves out (an empty one) has use for.
    """

    text: str = ""
    calls: tuple[Call, ...] = ()
    reasoning: str = ""
    stop: StopReason | None = None
    chunks: int = 1
    delay: float = 0.0
    times: int | None = None


@dataclass(frozen=True)
class Fail:
    """A request without a response, `times` times (None: always); `partial` is streamed before."""

    kind: ModelErrorKind
    text: str
    retry_after: float | None = None
    partial: str = ""
    times: int | None = 1


Step = Reply | Call | Fail | Callable[[ModelRequest], "Reply | Call | Fail"]
"""A callable decides from the request alone; it counts as one response, and what it returns is not counted down."""


def say(
    text: str,
    *,
    chunks: int = 1,
    delay: float = 0.0,
    reasoning: str = "",
    stop: StopReason | None = None,
) -> Reply:
    """Answer with `text`, streamed in `chunks` pieces, `delay` seconds before each."""
    return Reply(text=text, chunks=chunks, delay=delay, reasoning=reasoning, stop=stop)


def call(tool: str, /, **arguments: Any) -> Call:
    """Call one tool. As a step of its own it is a response without text."""
    return Call(tool, json.dumps(arguments, ensure_ascii=False))


def raw_call(tool: str, arguments: str, *, call_id: str | None = None) -> Call:
    """Call a tool with this very text as arguments, valid or not, and this call id, unique or not."""
    return Call(tool, arguments, call_id)


def calls(
    *several: Call,
    text: str = "",
    chunks: int = 1,
    delay: float = 0.0,
    reasoning: str = "",
    stop: StopReason | None = None,
) -> Reply:
    """Call several tools in one response, after `text`."""
    return Reply(text=text, calls=several, chunks=chunks, delay=delay, reasoning=reasoning, stop=stop)


def empty(*, times: int | None = 1, reasoning: str = "") -> Reply:
    """Answer with nothing (or `reasoning` only) to so many requests, None: to all; then the next step answers."""
    return Reply(reasoning=reasoning, times=times)


def fail(
    kind: ModelErrorKind,
    text: str = "the scripted provider failed",
    *,
    retry_after: float | None = None,
    partial: str = "",
    times: int | None = 1,
) -> Fail:
    """Bring no response to so many requests, None: to all; then the next step answers.

    `partial` is streamed first; `retry_after` is the provider's wish in seconds.
    """
    return Fail(kind, text, retry_after, partial, times)
