"""What a workflow cost, counted in its histories: exact, and the same on every machine.

A workflow's cost is that of all its runs and of every child it started.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHistory

Kind = TypeVar("Kind")


@dataclass(frozen=True)
class Cost:
    """Events, finished workflow tasks, and bytes as the server adds them up against its limit."""

    events: int = 0
    tasks: int = 0
    bytes: int = 0

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.events + other.events, self.tasks + other.tasks, self.bytes + other.bytes)

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.events - other.events, self.tasks - other.tasks, self.bytes - other.bytes)


@dataclass(frozen=True)
class Run:
    """One run of a workflow: its kind, its whole history, and the server's count of its bytes."""

    kind: str
    workflow_id: str
    run_id: str
    history: WorkflowHistory
    bytes: int

    @property
    def cost(self) -> Cost:
        """What this run alone cost."""
        return Cost(len(self.history.events), self.count(EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED), self.bytes)

    @property
    def has_turned_over(self) -> bool:
        """Whether it ended by continuing as new."""
        return self.history.events[-1].event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW

    @property
    def input_bytes(self) -> int:
        """Bytes of the input it started with, those that went to the store included."""
        started = self.history.events[0].workflow_execution_started_event_attributes
        return sum(
            len(payload.data) + sum(part.size_bytes for part in payload.external_payloads)
            for payload in started.input.payloads
        )

    def count(self, kind: EventType.ValueType) -> int:
        """How many events of `kind` it holds."""
        return sum(event.event_type == kind for event in self.history.events)


async def runs_of(client: Client, workflow_id: str) -> list[Run]:
    """The runs of a workflow, oldest first, each followed by the runs of the children it started."""
    described = await client.get_workflow_handle(workflow_id).describe()
    return await _from(client, workflow_id, described.raw_description.workflow_execution_info.first_run_id)


async def cost_of(client: Client, *workflow_ids: str) -> Cost:
    """What the workflows cost, their children and all their runs included."""
    runs = [run for workflow_id in workflow_ids for run in await runs_of(client, workflow_id)]
    return sum((run.cost for run in runs), Cost())


async def _from(client: Client, workflow_id: str, run_id: str) -> list[Run]:
    found: list[Run] = []
    while run_id:
        run = await _read(client, workflow_id, run_id)
        found.append(run)
        for event in run.history.events:
            if event.HasField("child_workflow_execution_started_event_attributes"):
                child = event.child_workflow_execution_started_event_attributes.workflow_execution
                found += await _from(client, child.workflow_id, child.run_id)
        run_id = _next_run(run.history.events[-1])
    return found


async def _read(client: Client, workflow_id: str, run_id: str) -> Run:
    handle = client.get_workflow_handle(workflow_id, run_id=run_id)
    history = await handle.fetch_history()
    # Asked after the history: a run that still grows has at least these bytes.
    described = await handle.describe()
    info = described.raw_description.workflow_execution_info
    return Run(described.workflow_type, workflow_id, run_id, history, info.history_size_bytes)


def _next_run(last: HistoryEvent) -> str:
    return last.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
