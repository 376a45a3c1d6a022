"""What a caller of the client can meet.

TarryError
├── NoSuchConversation   nothing with that id
├── NoSuchEntry          a fork was asked for at a place that the transcript does not have
├── ConversationExists   the id for a fork is taken by another conversation
├── RequestConflict      the request id was used for other content
├── DocumentConflict     a document is no longer what an edit was made of
├── ConversationBusy     asked to be refused when busy, and it is
├── InboxFull            wait until some inputs are answered, or until the open run is over
├── InputTooLarge        no inbox takes it: put it into a file and name that
├── SubmissionRefused    an input that was only accepted by the server was refused later
├── UnreadableOutput     an answer fits its schema, but not the model that reads it
├── NotHeld              nothing to retry there
├── NoSuchTask           nothing with that id that a signal could be delivered to
├── NotAsked             a link was wanted for what a task does not ask
├── NoSuchAgents         a conversation never had subagents, or they are over
├── DeployRefused        a build cannot be given work: it is unknown, or no worker of it is up
├── AgentRefused         a tree of agents did not do what it was asked for
└── ServerUnavailable    nobody answered: no server, or no worker where one is needed
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import timedelta

from temporalio.client import WorkflowUpdateFailedError
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from tarry.core.protocol import BUSY, CONFLICT, DOCUMENT_CONFLICT, INBOX_FULL, NOT_HELD
from tarry.core.subagents.protocol import RefusalCode
from tarry.core.waiting import CROWDED

UPDATE_TIMEOUT = timedelta(seconds=1.5)
"""How long an answer is waited for before what was sent is left with the server alone (spec §7.1)."""


class TarryError(Exception):
    """The root. Never raised itself; the text is one line for a person."""


class NoSuchConversation(TarryError):
    """There is no workflow with that id, or it is over and forgotten."""


class NoSuchTask(TarryError):
    """Nothing has that id, or it is nothing that takes signals."""


class NotAsked(TarryError):
    """The task does not wait for that; the text says what it waits for."""


class NoSuchAgents(TarryError):
    """There is no tree of agents there, or it is over."""


class AgentRefused(TarryError):
    """The tree did nothing; the text says what to do instead. `code` tells the reasons apart."""

    def __init__(self, code: RefusalCode, text: str) -> None:
        super().__init__(text)
        self.code = code


class DeployRefused(TarryError):
    """The routing of work to a build cannot be changed so; the text says why, most often the server's. Nothing was."""


class NoSuchEntry(TarryError):
    """The conversation has no entry with that number; nothing was forked."""


class ConversationExists(TarryError):
    """A conversation has that id, and is not the fork that was asked for; nothing was forked."""


class RequestConflict(TarryError):
    """The request id names another input; nothing was submitted."""


class DocumentConflict(TarryError):
    """A document has another revision than the one that was read; nothing was committed."""


class ConversationBusy(TarryError):
    """A run is open or queued; nothing was submitted."""


class InboxFull(TarryError):
    """Nothing was submitted."""


class InputTooLarge(TarryError):
    """The input is larger than any may be; nothing was submitted."""


class SubmissionRefused(TarryError):
    """The server had accepted the input; the conversation refused it when a worker came."""


class UnreadableOutput(TarryError):
    """The answer fits the schema of the output, and the model's own validators refuse it. `answer_text` has it."""


class NotHeld(TarryError):
    """The work is not held, so there is nothing to retry."""


class ServerUnavailable(TarryError):
    """Nobody answered for as long as one attempt lasts, up to half a minute. What was asked for may have been done."""


_BY_TYPE: dict[str, type[TarryError]] = {
    BUSY: ConversationBusy,
    CONFLICT: RequestConflict,
    DOCUMENT_CONFLICT: DocumentConflict,
    INBOX_FULL: InboxFull,
    NOT_HELD: NotHeld,
}


def translate(error: BaseException | None) -> TarryError | None:
    """The client's error for a workflow's, or None when it is not one of ours."""
    if isinstance(error, ApplicationError) and error.type in _BY_TYPE:
        return _BY_TYPE[error.type](error.message)
    return None


def is_crowded(error: WorkflowUpdateFailedError) -> bool:
    """Whether an update was refused for the number of those before it alone: the plain signal is the road then."""
    return isinstance(error.cause, ApplicationError) and error.cause.type == CROWDED


TOO_MANY_SIGNALS = "exceeded workflow execution limit for signal events"
"""What a server says that takes no more of them before the workflow has turned over."""

_SILENCE = frozenset(
    {
        RPCStatusCode.UNAVAILABLE,
        RPCStatusCode.CANCELLED,
        RPCStatusCode.DEADLINE_EXCEEDED,
        RPCStatusCode.FAILED_PRECONDITION,
    }
)
"""What the SDK says when no server answers, and what a server says when no worker does."""


@contextlib.asynccontextmanager
async def reaching_server() -> AsyncIterator[None]:
    """Turn silence into `ServerUnavailable`, and a full quota of signals into `InboxFull`; every other error passes.

    Also decorates coroutine functions.
    """
    try:
        yield
    except RPCError as error:
        if TOO_MANY_SIGNALS in error.message:
            reason = "the server takes no more for it while one run is open: wait for the end of the run, or stop it"
            raise InboxFull(reason) from error
        if error.status not in _SILENCE:
            raise
        reason = " ".join(error.message.split())
        raise ServerUnavailable(
            f"no Temporal server answers, or no worker behind it ({reason}): check that both run, then try again"
        ) from error
