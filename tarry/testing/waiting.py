"""Waiting for what is going to be, such as what another process does: asked again and again, for no fixed time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, RetryError, retry_if_result, stop_after_delay, wait_fixed

PATIENCE = 60.0
"""Seconds after which something hangs; a slow machine needs less."""

_POLL = 0.05

T = TypeVar("T")


async def eventually(ask: Callable[[], Awaitable[T]], accept: Callable[[T], bool] = bool) -> T:
    """Ask until an answer is accepted, by default a true one, and return it.

    Raises:
        TimeoutError: none was in 60 s; the text shows the last answer.
    """

    # tenacity would take a lambda that returns a coroutine for a plain function, and the coroutine for its answer.
    async def asked() -> T:
        return await ask()

    refused = retry_if_result(lambda answer: not accept(answer))
    attempts = AsyncRetrying(retry=refused, stop=stop_after_delay(PATIENCE), wait=wait_fixed(_POLL))
    try:
        answer: T = await attempts(asked)
    except RetryError as error:
        raise TimeoutError(f"the last answer was {error.last_attempt.result()!r}") from None
    return answer
