"""The tasks that a task created, one a key: nested calls and durable tasks (spec §4.9).

Their ends are noted as they come, so that a wait knows them and results stay readable. Their owner stops and awaits
what still lives when it settles; while one lives it cannot continue as new.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ChildWorkflowError, FailureError, WorkflowAlreadyStartedError
from temporalio.workflow import ChildWorkflowHandle

from tarry.core.keeping import ADOPT, TERMINATE, Adopted, AdoptInput, TerminateInput
from tarry.core.protocol import ABORT, DURABLE_TASK, TOOL_CALL, ResolvedCall, ToolOutcome, digest
from tarry.core.task_state import Child, State, TaskInput, TaskOutcome, ToolCallInput
from tarry.core.text import canonical_json
from tarry.core.waiting import AbortInput, CreateChild
from workflows import ends, options, patches
from workflows.supervise import LEVEL_SECONDS

MAX_KEY = 100
"""Characters of a key that stand in an id as they are; others are hashed."""
MAX_ID = 900
"""Bytes of a child's id; Temporal takes 1,000."""

_OUTCOMES: dict[str, type[ToolOutcome | TaskOutcome]] = {"call": ToolOutcome, "task": TaskOutcome}


class Children:
    """The children of one task."""

    def __init__(self, state: State, owner: ToolCallInput | TaskInput) -> None:
        self._state = state
        self._settings = owner.settings
        self._owner = owner
        self._live: dict[str, asyncio.Task[None]] = {}

    @property
    def are_over(self) -> bool:
        """Whether none of them lives."""
        return all(child.is_over for child in self._state.children.values())

    def find(self, key: str) -> Child | None:
        """The child under `key`, living or not."""
        return self._state.children.get(key)

    async def create(self, wanted: CreateChild, conversation_id: str) -> str:
        """Start the child and return its id; under a known key, that one's."""
        if (known := self.find(wanted.key)) is not None:
            return known.task_id
        child = Child(task_id=child_id(wanted.key), digest=fingerprint(wanted))
        # Noted before it is started: the same key may come again meanwhile.
        self._state.children[wanted.key] = child
        try:
            handle = await self._start(child, wanted, conversation_id)
            following = self._follow(wanted.key, handle)
        except WorkflowAlreadyStartedError:  # by an earlier timeline (spec §1.7)
            following = self._adopt(wanted.key, child)
        self._live[wanted.key] = asyncio.ensure_future(following)
        return child.task_id

    async def settle(self, deadline: Callable[[], datetime]) -> None:
        """Stop what still lives and wait for its end: bottom-up, and over before `deadline` (spec §7.4).

        What is not over by then is terminated.
        """
        living = [child for child in self._state.children.values() if not child.is_over]
        if not living:
            return
        until = deadline() - timedelta(seconds=LEVEL_SECONDS)
        for child in living:
            # One that has just ended needs no telling.
            with contextlib.suppress(FailureError):
                await workflow.get_external_workflow_handle(child.task_id).signal(ABORT, AbortInput(deadline=until))
        with contextlib.suppress(asyncio.TimeoutError):
            await workflow.wait_condition(lambda: self.are_over, timeout=deadline() - workflow.now())
        if left := tuple(child.task_id for child in living if not child.is_over):
            terminating = TerminateInput(workflow_ids=left)
            with contextlib.suppress(ActivityError):  # somebody ended it by hand
                await workflow.execute_activity(TERMINATE, terminating, result_type=RawValue, **options.TERMINATE)
        await workflow.wait_condition(lambda: self.are_over)

    async def _start(
        self, child: Child, wanted: CreateChild, conversation_id: str
    ) -> ChildWorkflowHandle[Any, ToolOutcome | TaskOutcome]:
        call = wanted.call
        config = options.child(
            child.task_id, conversation_id or child.task_id, child.digest, options.summary(call), call
        )
        outcome = _OUTCOMES[wanted.kind]
        if wanted.kind == "task":
            input = TaskInput(
                conversation_id=conversation_id,
                call=call,
                settings=self._settings,
                tree=self._owner.tree,
                permit_of=self._owner.permit_of,
            )
            return await workflow.start_child_workflow(DURABLE_TASK, input, result_type=outcome, **config)
        nested = ToolCallInput(
            conversation_id=conversation_id,
            generation_id=workflow.info().workflow_id,
            call=call,
            settings=self._settings,
            nested=True,
            takes_signals=True,
            judged_by_pass=True,
            tree=self._owner.tree,
            permit_of=self._owner.permit_of,
        )
        return await workflow.start_child_workflow(TOOL_CALL, nested, result_type=outcome, **config)

    async def _follow(self, key: str, handle: ChildWorkflowHandle[Any, ToolOutcome | TaskOutcome]) -> None:
        try:
            self._ended(key, await handle)
        except ChildWorkflowError:  # terminated from outside, or failed as no child should
            self._state.end_child(key, None, failed=True)

    async def _adopt(self, key: str, child: Child) -> None:
        input = AdoptInput(workflow_id=child.task_id, digest=child.digest)
        try:
            answer = await workflow.execute_activity(
                ADOPT, input, result_type=RawValue, **options.adopt(self._settings)
            )
            found = (ends.read(answer, Adopted) or Adopted(matches=True)).result
        except ActivityError:
            found = None
        self._state.end_child(key, found, failed=_has_failed(found))

    def _ended(self, key: str, outcome: ToolOutcome | TaskOutcome) -> None:
        failed = outcome.is_error if isinstance(outcome, ToolOutcome) else outcome.status != "completed"
        self._state.end_child(key, outcome.model_dump(mode="json"), failed=failed)


def _has_failed(found: Any) -> bool:
    """Whether what an adopted child left is no success: an error of either kind, or a task that was stopped."""
    if not isinstance(found, dict) or found.get("is_error") or found.get("error"):
        return True
    return found.get("status", "completed") != "completed" and patches.ADOPTED_ABORTS.is_passed()


def fingerprint(wanted: CreateChild) -> str:
    """What makes two children under one key the same."""
    call: ResolvedCall = wanted.call
    return digest(canonical_json([wanted.kind, call.tool, call.arguments]))


def child_id(key: str) -> str:
    """The id of the child under `key`; any text is a key (spec §1.1)."""
    is_plain = len(key) <= MAX_KEY and key.isascii() and all(c.isalnum() or c in "._-" for c in key)
    name = key if is_plain else "#" + hashlib.sha256(key.encode("utf-8", "replace")).hexdigest()[:24]
    return f"{workflow.info().workflow_id}/k.{name}"
