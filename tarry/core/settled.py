"""The built-in signal that tells a task how a submission ended (spec §7.2).

Pure.
"""

from __future__ import annotations

from pydantic import BaseModel

from signals.box import Delivery
from signals.tokens import Signal
from tarry.core.commits import SendSignal
from tarry.core.inbox import Record
from tarry.core.protocol import SubmissionStatus, SubmissionView, UnansweredReason, digest
from tarry.core.text import canonical_json

MAX_ANSWER_BYTES = 32 * 1024


class Settled(BaseModel):
    """How a submission ended. `answer_text` is None when there is none, or when it has over 32 KiB.

    `was_placed`: it came to stand in the transcript, as a steer does which a Stop overtook; a follow-up then never did.
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


def settled_as(conversation_id: str, view: SubmissionView) -> Settled:
    """What a task would be told of a submission that is over; not its text, which who asks can look up."""
    return Settled(
        conversation_id=conversation_id,
        request_id=view.request_id,
        status=view.status,
        reason=view.reason,
        detail=view.detail,
        answer=view.answer,
        was_placed=bool(view.generation_id),
    )


def settled_signal(conversation_id: str, nonce: str, record: Record, answer_text: str | None) -> SendSignal:
    """What tells the task that a settled submission names; the same one is the same delivery."""
    assert record.notify is not None
    settled = Settled(
        conversation_id=conversation_id,
        request_id=record.request_id,
        status=record.status,
        reason=record.reason,
        detail=record.detail,
        answer=record.answer if record.answer >= 0 else None,
        answer_text=answer_text if answer_text is None or len(answer_text.encode()) <= MAX_ANSWER_BYTES else None,
        was_placed=record.run > 0,
    )
    delivery = Delivery(
        signal=SUBMISSION_SETTLED.name,
        key=record.notify.key,
        value=settled.model_dump(mode="json"),
        version=SUBMISSION_SETTLED.version,
        delivery_id=digest(canonical_json([conversation_id, nonce, record.request_id])),
    )
    return SendSignal(task_id=record.notify.task_id, delivery=delivery)
