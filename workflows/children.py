"""The durable tasks that a task created: one a key, stopped and awaited when their owner settles (spec §4.9)."""

from __future__ import annotations

import contextlib
import hashlib
from typing import Any

from temporalio import workflow
from temporalio.exceptions import FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ChildWorkflowHandle

from tarry.core.protocol import DURABLE_TASK, ResolvedCall, RunSettings, digest
from tarry.core.task import Child, State, TaskInput
from tarry.core.text import canonical_json
from workflows import options

MAX_KEY = 100
"""Characters of a key that stand in an id as they are; others are hashed."""


class Children:
    """The children of one task. While one of them lives its owner cannot continue as new."""

    def __init__(self, state: State, settings: RunSettings) -> None:
        self._known = state.children
        self._settings = settings
        self._live: dict[str, ChildWorkflowHandle[Any, Any]] = {}

    @property
    def are_over(self) -> bool:
        """Whether none of them lives."""
        return all(handle.done() for handle in self._live.values())

    def find(self, key: str) -> Child | None:
        """The child under `key`, living or not."""
        return self._known.get(key)

    async def create(self, key: str, call: ResolvedCall, conversation_id: str) -> str:
        """Start the child and return its id; under a known key, that one's."""
        if (known := self._known.get(key)) is not None:
            return known.task_id
        task_id, content = child_id(key), fingerprint(call)
        # Noted before it is started: the same key may come again meanwhile.
        self._known[key] = Child(task_id=task_id, digest=content)
        with contextlib.suppress(WorkflowAlreadyStartedError):  # by an earlier timeline; it is the same child
            self._live[key] = await workflow.start_child_workflow(
                DURABLE_TASK,
                TaskInput(conversation_id=conversation_id, call=call, settings=self._settings),
                **options.child(task_id, conversation_id or task_id, content, options.summary(call), call.tool),
            )
        return task_id

    async def settle(self) -> None:
        """Stop what still lives and wait for its end: cleanup runs bottom-up (spec §7.4)."""
        living = [handle for handle in self._live.values() if not handle.done()]
        for handle in living:
            # By its id: the SDK's own cancel is for the first of its runs alone. One that has just ended needs none.
            with contextlib.suppress(FailureError):
                await workflow.get_external_workflow_handle(handle.id).cancel()
        for handle in living:
            with contextlib.suppress(FailureError):
                await handle


def fingerprint(call: ResolvedCall) -> str:
    """What makes two children under one key the same."""
    return digest(canonical_json([call.tool, call.arguments]))


def child_id(key: str) -> str:
    """The id of the child under `key`; any text is a key (spec §1.1)."""
    is_plain = len(key) <= MAX_KEY and key.isascii() and all(c.isalnum() or c in "._-" for c in key)
    name = key if is_plain else "#" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:24]
    return f"{workflow.info().workflow_id}/k.{name}"
