"""What running code may do to conversations: its own and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar, Unpack

from signals.tokens import Signal
from tarry.core.agent import Agent, AgentFields
from tarry.core.protocol import SubmissionView, WhenBusy
from tarry.documents import Edit
from tarry.tasks import DurableTask

T = TypeVar("T")
In = TypeVar("In")


@dataclass(frozen=True)
class Send(Generic[T]):
    """A value for a key of another task, to leave with a commit."""

    task_id: str
    token: Signal[T]
    key: str
    value: T


@dataclass(frozen=True)
class Start(Generic[In]):
    """A durable task to be started with a commit, under a key of the conversation. It outlives who committed it."""

    task: DurableTask[In, Any]
    input: In
    key: str


class ConversingApi(Protocol):
    """Inputs, commits, owned conversations, Stop."""

    @property
    def agent(self) -> Agent:
        """What the conversation goes by in this call, filled in with what the application has; no instructions.

        As of the model request that made the call: a change since counts from the next one (spec §7.6).
        """
        ...

    async def configure(self, conversation_id: str, **change: Unpack[AgentFields]) -> Agent | None:
        """Choose anew for a conversation, this one or another, as `Conversation.configure`; a rerun chooses the same.

        Raises:
            ValueError: a choice is not one.
            ServerUnavailable: no server answers.
            StaleRun: this run was given up.
        """
        ...

    def configure_sync(self, conversation_id: str, **change: Unpack[AgentFields]) -> Agent | None:
        """`configure` for a sync tool."""
        ...

    async def own_conversation(self, key: str, *, fork_of: str | None = None, at: int | None = None) -> str:
        """The id of a conversation that belongs to this task, started when there is none; the same key, the same one.

        It begins with a copy of what this task's conversation has chosen by then (spec §7.6). With `fork_of` it begins
        as a fork of that conversation, this one or another, through entry `at`, by default as it is now (spec §16).
        It outlives the task: whoever has its id may go on with it. Stop what it does in the `cancel` hook, by `abort`.

        Raises:
            NoSuchConversation, NoSuchEntry: there is nothing to fork.
            ConversationExists: the key is that of another one, which was not forked so.
            ServerUnavailable: no server answers.
            StaleRun: this run was given up.
        """
        ...

    def own_conversation_sync(self, key: str, *, fork_of: str | None = None, at: int | None = None) -> str:
        """`own_conversation` for a sync tool."""
        ...

    async def abort(self, work_id: str) -> bool:
        """Stop another task, or what a conversation is doing; False when it was over, or was never there."""
        ...

    def abort_sync(self, work_id: str) -> bool:
        """`abort` for a sync tool."""
        ...

    async def submit(
        self,
        conversation_id: str,
        content: str,
        *,
        request_id: str,
        when_busy: WhenBusy = "follow_up",
        notify: str | None = None,
    ) -> SubmissionView:
        """Submit an input to a conversation, this one or another, durably; the same request id again changes nothing.

        With `notify`, the key of that name of `SUBMISSION_SETTLED` is delivered to this task when the submission ends
        (spec §7.2): sleep on it, or read it. A conversation that ends without settling it is an end too.

        Raises:
            RequestConflict: the request id was used for other content.
            InboxFull, InputTooLarge: it was refused.
            ServerUnavailable: no server answers; submit again under the same request id.
            StaleRun: this run was given up.
        """
        ...

    def submit_sync(
        self,
        conversation_id: str,
        content: str,
        *,
        request_id: str,
        when_busy: WhenBusy = "follow_up",
        notify: str | None = None,
    ) -> SubmissionView:
        """`submit` for a sync tool."""
        ...

    async def commit(
        self,
        *,
        key: str,
        notes: Sequence[str] = (),
        inputs: Sequence[str] = (),
        signals: Sequence[Send[Any]] = (),
        tasks: Sequence[Start[Any]] = (),
        edits: Sequence[Edit[Any]] = (),
    ) -> bool:
        """Change this task's conversation, all of it or nothing, durably when it returns (spec §7.3).

        Notes are for people, and are placed at the next turn boundary; inputs are queued; signals and tasks leave for
        where they go, and what became of a signal is its receipt there. Edits are of documents, several of one document
        one after the other; when somebody else has edited one meanwhile, they are made again of what it is then, ten
        times at most. False when `key` was committed by this task before: then nothing happens a second time, and no
        edit is made.

        Documents of the session live in its root conversation: from another one they are committed by themselves.

        Raises:
            RequestConflict: the key was used for other content.
            DocumentConflict: a document has no longer the revision that a `put` names, or changed ten times.
            InboxFull: too much waits in the conversation, or its documents are too large together.
            ValueError: it has over 512 KiB, a part does not fit, or this task belongs to no conversation.
            NoSuchConversation, ServerUnavailable: nobody took it.
            StaleRun: this run was given up.
        """
        ...

    def commit_sync(
        self,
        *,
        key: str,
        notes: Sequence[str] = (),
        inputs: Sequence[str] = (),
        signals: Sequence[Send[Any]] = (),
        tasks: Sequence[Start[Any]] = (),
        edits: Sequence[Edit[Any]] = (),
    ) -> bool:
        """`commit` for a sync tool."""
        ...
