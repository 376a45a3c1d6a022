"""What becomes of an input while somebody waits, seen from outside: no event in any history (spec §7.5).

Temporal's descriptions answer with no worker up and carry what streams, as heartbeat details; a query tells the entries
that are committed, and is asked only when the history has grown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from temporalio.api.common.v1 import Payloads
from temporalio.client import WorkflowExecutionDescription, WorkflowQueryFailedError
from temporalio.service import RPCError, RPCStatusCode

from tarry.attributes import STATE, TOOL
from tarry.client import Harness, Submission
from tarry.core.protocol import (
    SUBMISSION,
    TOOL_CALL,
    VIEW,
    GenerationView,
    Progress,
    SubmissionLookup,
    SubmissionView,
)
from tarry.core.transcript import Entry
from tarry.entries import EntryCache, EntryReader
from tarry.store import BlobStore

T = TypeVar("T")

_QUERY_TIMEOUT = timedelta(seconds=2)
_CALLS_SHOWN = 10
_CACHE_BYTES = 1024 * 1024


@dataclass(frozen=True)
class OpenCall:
    """A tool call that has no result yet; `output` is what it published so far."""

    task_id: str
    label: str
    since: datetime
    output: str = ""
    is_held: bool = False


@dataclass(frozen=True)
class Moment:
    """How things stand.

    Attributes:
        doing: what goes on, or what is waited for, as a person would say it.
        streamed: the text of the response that the model is giving.
        calls: tool calls that have no result yet.
        entries: those committed since the last moment.
    """

    doing: str
    streamed: str = ""
    calls: tuple[OpenCall, ...] = ()
    entries: tuple[Entry, ...] = ()


class Follower:
    """Follows one submission. `placed` is its newest view once its run has begun."""

    def __init__(self, harness: Harness, submission: Submission) -> None:
        self._client = harness.client
        self._queue = harness.settings.task_queue
        self._submission = submission
        self._reader = EntryReader(self._client, BlobStore(self._client.data_converter), EntryCache(_CACHE_BYTES))
        self._run: GenerationView | None = None
        self._seen_events = 0
        self.placed: SubmissionView | None = None
        self.doing = ""

    async def look(self) -> Moment:
        """How things stand now; comes within seconds also when no worker is up, and when no server is."""
        try:
            moment = await self._look()
        except RPCError:
            moment = Moment("the Temporal server does not answer; it goes on when one does")
        self.doing = moment.doing
        return moment

    async def rest(self) -> Moment:
        """The entries committed since the last look, if a worker can still tell them."""
        self._seen_events = 0
        return await self.look()

    async def _look(self) -> Moment:
        if self.placed is None:
            waiting = await self._await_placing()
            if waiting or self.placed is None:
                return Moment(waiting)
        description = await self._describe(self.placed.generation_id)
        if description is None:
            return Moment("the run starts")
        entries = await self._new_entries(description)
        if entries is None:
            return Moment(self._no_worker(), calls=await self._calls(description))
        calls = await self._calls(description)
        return Moment(self._activity(calls), await self._streamed(description), calls, tuple(entries))

    async def _await_placing(self) -> str:
        """Look whether the run has begun; else what the input waits for."""
        lookup = await self._query(self._submission.conversation_id, SUBMISSION, SubmissionLookup)
        if lookup is None:
            return self._no_worker()
        found = lookup.submission
        if found is None or found.status == "queued":
            return "queued behind another run"
        self.placed = found if found.generation_id else None
        return ""

    def _no_worker(self) -> str:
        return f"no worker answers on task queue {self._queue}; it goes on when one is up"

    def _activity(self, calls: Sequence[OpenCall]) -> str:
        held = [call.task_id for call in calls if call.is_held]
        run = self._run
        if run is not None and run.held:
            return f"held: {run.held}; tarry retry '{run.generation_id}'"
        if held:
            return f"held; tarry retry '{held[0]}'"
        if run is not None and run.phase == "retry":
            return "the model request failed and is sent again soon"
        return "tools run" if calls else "the model answers"

    async def _describe(self, workflow_id: str) -> WorkflowExecutionDescription | None:
        try:
            return await self._client.get_workflow_handle(workflow_id).describe()
        except RPCError as error:
            if error.status == RPCStatusCode.NOT_FOUND:
                return None
            raise

    async def _query(self, workflow_id: str, name: str, answer: type[T]) -> T | None:
        """The answer, None when no worker gives one in time."""
        arguments = [self._submission.request_id] if name == SUBMISSION else []
        handle = self._client.get_workflow_handle(workflow_id)
        try:
            found: T = await handle.query(name, args=arguments, result_type=answer, rpc_timeout=_QUERY_TIMEOUT)
        except (RPCError, WorkflowQueryFailedError):
            return None
        return found

    async def _new_entries(self, description: WorkflowExecutionDescription) -> list[Entry] | None:
        """What the run committed since the last look; None when no worker tells."""
        if description.history_length == self._seen_events:
            return []
        run = await self._query(description.id, VIEW, GenerationView)
        if run is None:
            return None
        start = self._run.end if self._run is not None else run.start
        entries = await self._reader.read(description.id, start, run.end)
        self._run, self._seen_events = run, description.history_length
        return entries

    async def _calls(self, description: WorkflowExecutionDescription) -> tuple[OpenCall, ...]:
        children = description.raw_description.pending_children
        ids = [child.workflow_id for child in children if child.workflow_type_name == TOOL_CALL]
        described = await asyncio.gather(*(self._describe(task_id) for task_id in ids[:_CALLS_SHOWN]))
        return tuple([await self._open_call(found) for found in described if found is not None])

    async def _open_call(self, description: WorkflowExecutionDescription) -> OpenCall:
        attributes = description.typed_search_attributes
        return OpenCall(
            task_id=description.id,
            label=await description.static_summary() or attributes.get(TOOL) or "",
            since=description.start_time,
            output=await self._streamed(description),
            is_held=attributes.get(STATE) == "held",
        )

    async def _streamed(self, description: WorkflowExecutionDescription) -> str:
        """What the pending activity of a workflow has published by heartbeat."""
        for activity in description.raw_description.pending_activities:
            if activity.HasField("heartbeat_details"):
                return await self._published(activity.heartbeat_details)
        return ""

    async def _published(self, details: Payloads) -> str:
        values: list[Progress] = await self._client.data_converter.decode(details.payloads, [Progress])
        return values[0].text if values else ""
