"""Which worker runs the code of a tool or a durable task, and the task queue that leads to it (spec §25).

Pure. A worker of a name serves a queue of its own beside the deployment's, which is that of workflows and of all
code that names no worker.
"""

from __future__ import annotations

import re

DEFAULT = "default"
"""The worker of workflows, hooks, model requests, and of all code that names none."""
ALL = "all"
"""Whichever the application names, and the default one."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,49}")


def is_worker(name: str) -> bool:
    """Whether a worker can be called so, the default one among them."""
    return _NAME.fullmatch(name) is not None and name != ALL


def checked_worker(name: str, of: str) -> str:
    """`name`, as the worker of a tool, a task or an extension; empty for the default one.

    Raises:
        ValueError: no worker can be called so; it says `of` what.
    """
    if name and (not is_worker(name) or name == DEFAULT):
        raise ValueError(
            f"{of}: worker {name!r} must be 1 to 50 small letters, digits, _ or -, and not {DEFAULT} or {ALL}"
        )
    return name


def queue_of(task_queue: str, worker: str) -> str:
    """The queue that `worker` serves in the deployment on `task_queue`; of no name the deployment's own."""
    return f"{task_queue}/{worker}" if worker else task_queue


def worker_of(queue: str, task_queue: str) -> str:
    """Whose `queue` is in the deployment on `task_queue`; empty: the default worker's."""
    return queue.removeprefix(f"{task_queue}/") if queue.startswith(f"{task_queue}/") else ""
