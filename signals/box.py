"""The values a task holds: first writer wins, and all of them together are bounded.

Pure. State a task carries over a turn of its run is this box as it is (spec §1.5, §4.6).
"""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel, Field

QUOTA_BYTES = 512 * 1024


class BoxFull(Exception):
    """The value would exceed the quota; nothing was stored."""


class Box(BaseModel):
    """Memos by key."""

    memos: dict[str, Any] = Field(default_factory=dict)
    used_bytes: int = 0

    def memo(self, key: str, value: Any) -> Any:
        """Store `value` unless `key` holds one; return what it holds.

        Raises:
            BoxFull: the quota would be exceeded.
        """
        if key in self.memos:
            return self.memos[key]
        self.used_bytes += self.check(key, value)
        self.memos[key] = value
        return value

    def check(self, key: str, value: Any) -> int:
        """The bytes a new value would take.

        Raises:
            BoxFull: the quota would be exceeded.
        """
        size = len(key.encode()) + len(json.dumps(value, ensure_ascii=False).encode())
        if self.used_bytes + size > QUOTA_BYTES:
            raise BoxFull(f"memo {key!r} needs {size} bytes, {QUOTA_BYTES - self.used_bytes} are left")
        return size
