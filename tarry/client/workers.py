"""Whether a worker of a name is there: asked of the queue that it serves (spec §25.3)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client

from tarry.client.work import WorkItem

SILENCE = timedelta(seconds=90)
"""A worker asks for work anew at least once a minute; one that has not for so long is not there."""

ACTIVITIES = TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY
WORKFLOWS = TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW


async def described(client: Client, queue: str, kind: TaskQueueType.ValueType) -> DescribeTaskQueueResponse:
    """What the server says of one of a queue's two halves."""
    request = DescribeTaskQueueRequest(
        namespace=client.namespace,
        task_queue=TaskQueue(name=queue),
        task_queue_type=kind,
        report_stats=True,
        # The statistics cover all partitions, and are some seconds old; this is of one partition, and fresh.
        include_task_queue_status=True,
    )
    return await client.workflow_service.describe_task_queue(request, retry=True)


async def has_backlog(client: Client, queue: str, kind: TaskQueueType.ValueType) -> bool:
    """Whether tasks wait there for a worker."""
    found = await described(client, queue, kind)
    return found.stats.approximate_backlog_count > 0 or found.task_queue_status.backlog_count_hint > 0


async def is_served(client: Client, queue: str) -> bool:
    """Whether somebody has asked for activities of this queue lately."""
    earliest = datetime.now(UTC) - SILENCE
    pollers = (await described(client, queue, ACTIVITIES)).pollers
    return any(poller.last_access_time.ToDatetime(UTC) >= earliest for poller in pollers)


async def marked(client: Client, items: Sequence[WorkItem]) -> list[WorkItem]:
    """The items, `unserved` those whose code would run on a worker that is not there."""
    queues = {item.queue for item in items if item.worker}
    served = await served_of(client, queues)
    return [
        item.model_copy(update={"unserved": True}) if item.worker and item.queue not in served else item
        for item in items
    ]


async def served_of(client: Client, queues: Iterable[str]) -> set[str]:
    """Those of the queues that somebody serves."""
    asked = list(queues)
    answers = await asyncio.gather(*(is_served(client, queue) for queue in asked))
    return {queue for queue, is_there in zip(asked, answers, strict=True) if is_there}
