"""Application code that is asked beside the work: in a thread of its own, within a time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from activities.runner import ToolThread
from tarry.core.results import exception_text


async def called(code: Callable[[], Any], ends: float) -> Any:
    """What `code` returns, a coroutine awaited; `ends` is on the monotonic clock.

    Raises:
        TimeoutError: it gave no answer in time, and is left alone.
        Exception: what it raised.
    """
    thread = ToolThread(code, threading.Event(), "tarry-hook")
    ended = await thread.wait(max(ends - time.monotonic(), 0))
    if ended is None:
        await thread.stop(0.1)
        raise TimeoutError("it gave no answer in time")
    if isinstance(ended.error, Exception):
        raise ended.error
    if ended.error is not None:  # it would end more than the code that raised it
        raise RuntimeError(exception_text(ended.error))
    return ended.value
