"""How all work of a task queue stands, by Temporal's lists alone: what is parked, held, overdue, asked (spec §24.7).

No worker needs to be up. What is parked is listed rather than counted, since only the note of a task says since when it
is parked and whether it asks; whoever looks again and again pauses by how long that took.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client, WorkflowExecution

from tarry import attributes
from tarry.client.deployments import given_work
from tarry.client.errors import reaching_server
from tarry.client.lists import QueueLists, literal
from tarry.client.work import parked_note
from tarry.core.protocol import GENERATION
from tarry.core.routing import DEFAULT, queue_of
from tarry.seeing import metrics

STATES = ("sleeping", "waiting", "gated")
_QUEUES = {
    "workflow": TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW,
    "activity": TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY,
}
_LISTED = f"{attributes.STATE.name} IN ('sleeping', 'waiting', 'gated', 'held')"


@dataclass
class Standing:
    """What a look found. `parked` and `since`: by kind and state, `since` the oldest; `held`: by kind.

    `backlog` and `pollers`, those that are given work: by the type of a task queue and whose it is, `default` or the
    name of a worker.
    """

    at: datetime
    parked: Counter[tuple[str, str]] = field(default_factory=Counter)
    since: dict[tuple[str, str], datetime] = field(default_factory=dict)
    held: Counter[str] = field(default_factory=Counter)
    overdue: int = 0
    due: datetime | None = None
    questions: int = 0
    asked: datetime | None = None
    runs: int = 0
    backlog: Mapping[tuple[str, str], int] = field(default_factory=dict)
    pollers: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def take(self, kind: str, state: str, since: datetime, until: datetime | None, *, asks: bool) -> None:
        """One more that is parked."""
        self.parked[kind, state] += 1
        self.since[kind, state] = min(since, self.since.get((kind, state), since))
        if until is not None and until <= self.at:
            self.overdue += 1
            self.due = until if self.due is None else min(self.due, until)
        if asks:
            self.questions += 1
            self.asked = since if self.asked is None else min(self.asked, since)


@reaching_server()
async def look(client: Client, task_queue: str, now: datetime, workers: Sequence[str] = ()) -> Standing:
    """How it stands now, in the queues of the workers of these names too.

    Raises:
        ServerUnavailable: no server answers.
    """
    found = Standing(at=now)
    query = f'{_LISTED} AND ExecutionStatus = "Running" AND TaskQueue = {literal(task_queue)}'
    async for execution in client.list_workflows(query, page_size=1_000):
        await _take(found, execution)
    found.runs = await QueueLists(client, task_queue).count_open(f'WorkflowType = "{GENERATION}"')
    told = {(kind, DEFAULT): await _queue(client, task_queue, of) for kind, of in _QUEUES.items()}
    for name in workers:
        told["activity", name] = await _queue(client, queue_of(task_queue, name), _QUEUES["activity"])
    found.backlog = {queue: one.stats.approximate_backlog_count for queue, one in told.items()}
    found.pollers = {queue: len(given_work(one)) for queue, one in told.items()}
    return found


async def _take(found: Standing, execution: WorkflowExecution) -> None:
    kind = metrics.KINDS.get(execution.workflow_type, "other")
    state = execution.typed_search_attributes.get(attributes.STATE) or ""
    if state == "held":
        found.held[kind] += 1
    elif (note := await parked_note(execution)) is not None:
        found.take(kind, state, note.since, note.until, asks=bool(note.text))


async def _queue(client: Client, task_queue: str, of: TaskQueueType.ValueType) -> DescribeTaskQueueResponse:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=task_queue), task_queue_type=of, report_stats=True
    )
    return await client.workflow_service.describe_task_queue(request, retry=True)
