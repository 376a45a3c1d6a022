"""Small things that anybody may see of a conversation. Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from tarry.core.messages import Frozen


class InboxItem(Frozen):
    """What waits in the inbox: an input, or a raw entry; `text` is its beginning."""

    request_id: str
    text: str
    mode: Literal["steer", "follow_up", "write"]
    at: datetime


class Retry(Frozen):
    """A model request that failed and is sent again."""

    at: datetime
    why: str
