"""What the application lets out of payloads: into lists and the Web UI's lines, and into logs (spec §20.4).

A redactor is the application's code, so one that fails lets nothing out.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from signals.data import clean
from signals.parking import Ask
from tarry.core.protocol import ResolvedCall
from tarry.core.results import plain_json

HIDDEN = "[not shown]"

ShownField = Literal["arguments", "question", "log", "trace"]
"""Of a call's arguments an excerpt stands in summaries and in the note of a parked task; the question of a park stands
there too; a log is a message or a traceback of a worker or gateway; a trace is what a message or a result says, where
spans tell of it (spec §24.4)."""


@dataclass(frozen=True)
class Shown:
    """Something that is about to be shown.

    Attributes:
        field: what it is.
        value: of arguments an object, JSON data; else a text.
        tool: the tool or durable task it belongs to; empty in logs, and of what is said.
    """

    field: ShownField
    value: Any
    tool: str = ""


Redact = Callable[[Shown], Any]
"""Returns what is shown in place of `value`: an object for arguments, else a text. A quick pure function."""

_LOG = logging.getLogger(__name__)


def show(redact: Redact, shown: Shown) -> Any:
    """What a redactor leaves; nothing where it raises, or returns something of another kind."""
    left = left_by(redact, shown)
    if left is None:
        return {} if shown.field == "arguments" else HIDDEN
    return left


def left_by(redact: Redact, shown: Shown) -> Any | None:
    """What a redactor leaves, as JSON data; None where it raises, or returns something of another kind.

    It is asked about a copy: what it changes there changes nothing that runs.
    """
    kind = dict if shown.field == "arguments" else str
    try:
        left = redact(replace(shown, value=copy.deepcopy(shown.value)))
        return plain_json(left) if isinstance(left, kind) else None
    except Exception as error:  # application code may raise anything
        if shown.field != "log":
            _LOG.warning("a redactor failed at %s of %s: %s", shown.field, shown.tool, type(error).__name__)
        return None


def show_calls(redact: Redact | None, calls: Iterable[ResolvedCall]) -> tuple[ResolvedCall, ...]:
    """Calls with their arguments as they are shown; those of calls that cannot run are shown nowhere."""
    if redact is None:
        return tuple(calls)
    return tuple(call if call.error else _shown(redact, call) for call in calls)


def show_ask(redact: Redact | None, ask: Ask | None, tool: str) -> Ask | None:
    """A question as it is shown."""
    if redact is None or ask is None:
        return ask
    text = show(redact, Shown("question", ask.text, tool))
    return ask.model_copy(update={"text": clean(text, len(text))})


class LogRedaction(logging.Filter):
    """Passes every line, message and traceback, through the redactor."""

    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redact = redact

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record out as it may be."""
        record.msg, record.args = show(self._redact, Shown("log", _line(record))), None
        if record.exc_info:
            trace = logging.Formatter().formatException(record.exc_info)
            record.exc_text, record.exc_info = show(self._redact, Shown("log", trace)), None
        return True


def _line(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # of arguments that do not fit: a filter that raised would raise at who logs
        return str(record.msg)


def redact_logs(redact: Redact | None) -> None:
    """Have every line that the handlers of this process write pass through the redactor."""
    if redact is not None:
        for handler in logging.getLogger().handlers:
            handler.addFilter(LogRedaction(redact))


def _shown(redact: Redact, call: ResolvedCall) -> ResolvedCall:
    return call.model_copy(update={"shown": show(redact, Shown("arguments", call.arguments, call.tool))})
