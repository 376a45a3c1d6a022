"""Where a task stands in its tree: the ids from the root conversation down to it.

Pure. An id says it all within one conversation (spec §1.1). A conversation that belongs to a task goes on above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate


def root_of(task_id: str) -> str:
    """The conversation in which a task was made; of a task without one the outermost task."""
    return task_id.partition("/")[0].partition("~")[0]


def path_of(task_id: str, owners: Mapping[str, str]) -> tuple[str, ...]:
    """The ids of everything above a task, root first, and its own. `owners`: the task that owns a conversation."""
    path: list[str] = []
    while True:
        within = list(accumulate(task_id.split("/"), "{}/{}".format))
        # A conversation is known without the nonce that its tasks carry.
        path = [root_of(task_id), *within[1:], *path]
        owner = owners.get(root_of(task_id))
        if owner is None or root_of(owner) in path:
            return tuple(path)
        task_id = owner
