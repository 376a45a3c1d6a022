"""The built-in signal that tells a task how a submission ended (spec §7.2).

Pure.
"""

from __future__ import annotations

from pydantic import BaseModel

from signals.tokens import Signal
from tarry.core.protocol import SubmissionStatus, UnansweredReason

MAX_ANSWER_BYTES = 32 * 1024


class Settled(BaseModel):
    """How a submission ended. `answer_text` is None when there is none, or when it has over 32 KiB.

    `was_placed`: it came to stand in the transcript; one that a Stop found in the inbox never did.
    """

    conversation_id: str
    request_id: str
    status: SubmissionStatus
    reason: UnansweredReason = ""
    detail: str = ""
    answer: int | None = None
    answer_text: str | None = None
    was_placed: bool = True


SUBMISSION_SETTLED = Signal("tarry.submission-settled", 1, Settled, built_in=True)
"""What a task is told whose submission asked for it with `notify`."""
