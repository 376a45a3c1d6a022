"""What running code sends to conversations: commits to its own, inputs to any (spec §7.1, §7.3)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from activities.task.documents import DeclaredDocuments, run_edit
from tarry.api import Send, Start
from tarry.app import Registry
from tarry.client import Harness, NoSuchConversation, NoSuchTask
from tarry.client.commits import Sender, commit_with
from tarry.client.documents import DocumentReader
from tarry.core.agent import Agent
from tarry.core.commits import CommitInput
from tarry.core.protocol import Notify, SubmissionView, ToolRunInput, WhenBusy, digest
from tarry.core.text import canonical_json
from tarry.documents import Edit


class Committer:
    """Speaks for one task."""

    def __init__(self, harness: Harness, registry: Registry, task: ToolRunInput) -> None:
        self._harness = harness
        self._conversation_id = task.conversation_id
        self._task_id = task.task_id
        self._tree = task.tree
        self._reader = DocumentReader(harness.client)
        self.documents = DeclaredDocuments(registry, self._reader)

    def compose(
        self,
        key: str,
        notes: Sequence[str],
        inputs: Sequence[str],
        signals: Sequence[Send[Any]],
        tasks: Sequence[Start[Any]],
    ) -> CommitInput:
        """The commit, its parts checked.

        Raises:
            ValueError: the task belongs to no conversation; a task's input does not fit.
            Unreadable: a value does not fit its token.
        """
        if not self._conversation_id:
            raise ValueError("this task belongs to no conversation: there is nothing to commit to")
        owner = self._task_id.partition("/")[0]
        sender = Sender(self._harness.settings, self._conversation_id, self._task_id, owner, self._tree)
        return sender.compose(key, notes, inputs, signals, tasks)

    async def commit(self, commit: CommitInput, edits: Sequence[Edit[Any]] = ()) -> bool:
        """Send it, with the edits made of what the documents are; raises as `commit_with`."""
        return await commit_with(self._reader, self._conversation_id, commit, edits, run_edit)

    async def submit(
        self, conversation_id: str, content: str, request_id: str, when_busy: WhenBusy, notify: str | None
    ) -> SubmissionView:
        """Submit an input to a conversation; raises as `Conversation.submit`."""
        submission = await self._harness.conversation(conversation_id).submit(
            content,
            request_id=request_id,
            when_busy=when_busy,
            notify=None if notify is None else Notify(task_id=self._task_id, key=notify),
        )
        return submission.view or await submission.status()

    async def own_conversation(self, key: str, fork_of: str | None, at: int | None) -> str:
        """A conversation that belongs to the task, one a key; raises as `ToolApi.own_conversation`."""
        conversation_id = f"sub-{digest(canonical_json([self._task_id, key]))}"
        if fork_of is not None:
            parent = self._harness.conversation(fork_of)
            await parent.fork(at, conversation_id=conversation_id, owner=self._task_id)
        else:
            own = self._harness.conversation(conversation_id, agent=await self._agent())
            await own.start(owner=self._task_id)
        return conversation_id

    async def _agent(self) -> Agent | None:
        """What the conversation of the task has chosen; None: it has none, or that is gone."""
        if not self._conversation_id:
            return None
        with contextlib.suppress(NoSuchConversation):
            return await self._harness.conversation(self._conversation_id).agent()
        return None

    async def abort(self, work_id: str) -> bool:
        """Stop a task or what a conversation does; raises as `ToolApi.abort`."""
        try:
            return await self._harness.abort(work_id)
        except NoSuchTask:
            return False
