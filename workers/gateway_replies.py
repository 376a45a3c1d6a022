"""What the gateway answers: one JSON object, and a status that says whether to send again.

2xx only for what Temporal has taken, or for what there is nothing to take of; other 4xx are final; 503 wants a resend.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from starlette.responses import JSONResponse

from tarry.core.waiting import SendAnswer, SignalResult

Word = SendAnswer | Literal["kept", "ignored", "refused", "unavailable"]
"""`kept`: until somebody expects it. `refused`: the request itself. `unavailable`: not now, send it again."""

RETRY_AFTER = "5"
"""Seconds."""

STATUS: dict[Word, int] = {
    "delivered": 200,
    "duplicate": 200,
    "ignored": 200,
    "accepted": 202,
    "kept": 202,
    "not_found": 404,
    "closed": 410,
    "invalid": 422,
    "unavailable": 503,
}
"""`refused` has the status that fits its reason."""


@dataclass(frozen=True)
class Reply:
    """An answer to a sender."""

    answer: Word
    reason: str = ""
    delivery_id: str = ""
    status: int = 0

    @property
    def code(self) -> int:
        """The HTTP status."""
        return self.status or STATUS[self.answer]

    def response(self) -> JSONResponse:
        """The reply over HTTP."""
        headers = {"Retry-After": RETRY_AFTER} if self.code == STATUS["unavailable"] else None
        body = {"answer": self.answer, "reason": self.reason, "delivery_id": self.delivery_id}
        return JSONResponse(body, self.code, headers)


class Refused(Exception):
    """The request is answered with this before anything is sent."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(reply.reason)
        self.reply = reply


def refused(status: int, reason: str) -> Refused:
    """A request that is not as it must be."""
    return Refused(Reply("refused", reason, status=status))


def told(result: SignalResult) -> Reply:
    """What a task, or the server, said to a delivery."""
    return Reply(result.answer, result.reason, result.delivery_id)
