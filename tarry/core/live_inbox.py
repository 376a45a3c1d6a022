"""The inbox as those who watch a conversation see it.

Pure. Bounded, since a query's answer is: an inbox may hold a mebibyte.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarry.core.glances import InboxItem
from tarry.core.inbox import Queued

SHOWN_ITEMS = 50
SHOWN_CHARACTERS = 200


def inbox_items(queue: Sequence[Queued]) -> tuple[InboxItem, ...]:
    """The first fifty of what is queued, each with the first 200 characters."""
    return tuple(
        InboxItem(
            request_id=item.request_id,
            text=item.content[:SHOWN_CHARACTERS],
            mode="write" if item.write else "steer" if item.steer else "follow_up",
            at=item.at,
        )
        for item in queue[:SHOWN_ITEMS]
    )
