"""Waiting in tests for what is going to be: asked again and again, never a length of time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryError, retry_if_result, stop_after_delay, wait_fixed

PATIENCE = 120.0
"""Seconds after which something hangs; a machine that is ten times as slow needs less."""

T = TypeVar("T")


async def eventually(ask: Callable[[], Awaitable[T]], accept: Callable[[T], bool] = bool) -> T:
    """The first answer that is accepted.

    Raises:
        TimeoutError: none was, in `PATIENCE` seconds; with the last answer.
    """

    # A lambda that returns a coroutine would be taken for a plain function, its coroutine for the answer.
    async def asked() -> T:
        return await ask()

    attempts = AsyncRetrying(
        retry=retry_if_result(lambda answer: not accept(answer)), stop=stop_after_delay(PATIENCE), wait=wait_fixed(0.02)
    )
    try:
        answer: T = await attempts(asked)
    except RetryError as error:
        raise TimeoutError(f"the last answer was {error.last_attempt.result()!r}") from None
    return answer
