"""Logs of the processes: lines for people, or one JSON object a line, with what the line is about (spec §24.8)."""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime

from opentelemetry import trace
from temporalio import activity, workflow

from tarry.seeing import spans
from tarry.settings import Settings

_TEXT = "%(asctime)s %(levelname)s %(name)s %(message)s"
_FIELDS = {
    spans.CONVERSATION_ID: "conversation_id",
    spans.TASK_ID: "task_id",
    spans.RUN: "run",
    spans.TOOL_NAME: "tool",
    spans.REQUEST_MODEL: "model",
    spans.ATTEMPT: "attempt",
}
"""Of what is known of the span that a line is logged in, whether or not spans are sent."""


def begin_logging(settings: Settings, process: str, level: str = "info") -> None:
    """Log to stderr as the settings say, else from `level` on."""
    form = JsonLines(process) if settings.log_format == "json" else logging.Formatter(_TEXT)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(form)
    logging.basicConfig(level=(settings.log_level or level).upper(), handlers=[handler])


class JsonLines(logging.Formatter):
    """One JSON object a line. A field that says nothing is not there."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        line = {
            "at": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": self._process,
            "pid": os.getpid(),
            **_work(),
            **_trace(),
            "error": record.exc_text,
        }
        return json.dumps({name: value for name, value in line.items() if value not in (None, "")}, ensure_ascii=False)


def _work() -> dict[str, object]:
    """Which workflow or activity, and what of it."""
    known: dict[str, object] = {}
    if activity.in_activity():
        info = activity.info()
        known = {"task_id": info.workflow_id, "activity": info.activity_type, "attempt": info.attempt}
    elif workflow.in_workflow():
        known = {"task_id": workflow.info().workflow_id}
    return known | {_FIELDS[name]: value for name, value in spans.known().items() if name in _FIELDS}


def _trace() -> dict[str, str]:
    context = trace.get_current_span().get_span_context()
    if not context.is_valid:
        return {}
    ids = trace.format_trace_id(context.trace_id), trace.format_span_id(context.span_id)
    return dict(zip(("trace_id", "span_id"), ids, strict=True))
