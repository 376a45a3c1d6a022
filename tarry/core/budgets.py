"""How often a run repeats what went wrong, and how long it waits before (spec §6.3, §6.4).

Pure. All of it decides what a workflow does when it is replayed: change it only behind `workflow.patched`.
"""

from __future__ import annotations

EMPTY_LIMIT = 2
"""How often an empty answer is asked again."""
INVALID_LIMIT = 1
"""How many answers in a row that are not the output that was asked for are sent back."""
CUT_LIMIT = 3
"""How many responses in a row may be cut off in the middle of their calls."""
BACKOFF_BASE = 2.0
BACKOFF_CAP = 60.0
RETRY_AFTER_CAP = 3600.0


def backoff(failures: int, retry_after: float | None) -> float:
    """The provider's wish, bounded; else 2 s, 4 s, 8 s and so on, at most a minute."""
    if retry_after is not None:
        return min(max(retry_after, 1.0), RETRY_AFTER_CAP)
    return float(min(BACKOFF_BASE * 2**failures, BACKOFF_CAP))
