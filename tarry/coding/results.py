"""How a coding tool says that it did not work: a remark with a code, after whatever there is to read."""

from __future__ import annotations

from typing import Any

from tarry.api import ToolApi
from tarry.tools import ToolResult


def refused(api: ToolApi, code: str, message: str, content: str = "", details: Any = None) -> ToolResult:
    """An error result that says `message`, with the newest of `content` before it."""
    api.diagnostic(message, severity="error", code=code)
    return ToolResult(content, is_error=True, details=details, keep="tail")
