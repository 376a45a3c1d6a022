"""How a conversation says no: to whoever waits for an answer, and to a plain signal, whose refusal it remembers."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Iterator

from temporalio import workflow
from temporalio.exceptions import ApplicationError, FailureError

from tarry.core.conversation import ConversationState
from tarry.core.documents import Outdated
from tarry.core.inbox import Busy, Conflict, Full, TooLarge
from tarry.core.protocol import BUSY, CONFLICT, DOCUMENT_CONFLICT, INBOX_FULL, INVALID

MAX_ID = 900
"""Bytes of a conversation's id that leave room for the ids of what it starts."""

_TYPES: dict[type[Exception], str] = {
    Conflict: CONFLICT,
    Busy: BUSY,
    Full: INBOX_FULL,
    TooLarge: INVALID,
    Outdated: DOCUMENT_CONFLICT,
}


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Tell the sender why the inbox does not take something."""
    try:
        yield
    except tuple(_TYPES) as error:
        raise ApplicationError(str(error), type=_TYPES[type(error)]) from error


def check_id() -> None:
    """A shell can start a conversation under an id that leaves no room for those of its runs: none could be started."""
    if len(workflow.info().workflow_id.encode()) > MAX_ID:
        raise ApplicationError(
            "the id of this conversation is too long; start one with at most 200 bytes", type=INVALID
        )


async def unless_refused(state: ConversationState, name: str, request_id: str, work: Awaitable[object]) -> None:
    """Do what a plain signal asks for, and remember why not."""
    try:
        await work
    # Any of Temporal's own failures would end the conversation: also that of a look-up that was ended by hand.
    except FailureError as error:
        state.refuse(f"{name}: {error.message}", request_id)
