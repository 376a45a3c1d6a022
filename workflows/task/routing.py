"""Sending the code of a task to the worker that it names, and saying so in lists (spec §25.1)."""

from __future__ import annotations

from temporalio import workflow
from temporalio.workflow import ActivityConfig

from tarry.attributes import WORKER
from tarry.core.routing import queue_of


def to_worker(config: ActivityConfig, worker: str) -> ActivityConfig:
    """The same activity, for `worker`; of no name it stays on the queue of its workflow."""
    return {**config, "task_queue": queue_of(workflow.info().task_queue, worker)} if worker else config


def show_worker(worker: str) -> None:
    """Lists say from here on that `worker` runs it: one event."""
    workflow.upsert_search_attributes([WORKER.value_set(worker) if worker else WORKER.value_unset()])
