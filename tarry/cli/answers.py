"""What became of a submission, told to a person, to a program, and as an exit code."""

from __future__ import annotations

import re

from tarry.cli.exits import ExitCode
from tarry.cli.output import Output
from tarry.client import Submission
from tarry.core.protocol import SubmissionView

_PUT_RIGHT = re.compile(r"HTTP (401|403|404)\b|OPENAI_(API_KEY|BASE_URL)")
"""What a model's error says when its key, its name or its address is wrong."""


def ids(submission: Submission) -> dict[str, object]:
    """What names the submission in every JSON object."""
    return {"conversation_id": submission.conversation_id, "request_id": submission.request_id}


def facts(submission: Submission, view: SubmissionView) -> dict[str, object]:
    """The submission as JSON."""
    return {
        **ids(submission),
        "status": view.status,
        "generation_id": view.generation_id,
        "answer": view.answer_text,
        "reason": view.reason,
        "detail": view.detail,
    }


def conclude(output: Output, submission: Submission, view: SubmissionView) -> int:
    """Print how a settled submission ended, and return the exit code for it."""
    if output.as_json:
        output.json(facts(submission, view))
    elif view.status == "done":
        output.text(view.answer_text or "")
    if view.status == "done":
        return ExitCode.DONE
    if view.reason == "model_error" and _PUT_RIGHT.search(view.detail):
        output.complaint(
            f"the model cannot be used ({view.detail}): check OPENAI_MODEL, OPENAI_API_KEY and OPENAI_BASE_URL"
        )
        return ExitCode.PUT_RIGHT
    output.complaint(f"no answer ({view.reason}){': ' if view.detail else ''}{view.detail}")
    return ExitCode.NO_ANSWER
