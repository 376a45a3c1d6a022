"""Wrappers of an extension: they decorate how a tool runs, and never park.

`wraps=[limited]` of an extension wraps every tool of the application, those of other extensions included:

    async def limited(call: HookCall, run: Run) -> Any:
        if call.tool != "bash":
            return await run()
        async with asyncio.timeout(60):
            return await run(command=f"nice {call.arguments['command']}")
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from tarry.hooks import HookCall


class Run(Protocol):
    """Runs what is wrapped: the next wrapper, and in the end the tool."""

    async def __call__(self, **changed: Any) -> Any:
        """What that returned; raises what it raised.

        It runs once. Cancelled, an async tool is cancelled; a sync one finds `api.is_cancelled` and has two seconds.

        Args:
            changed: arguments in place of the call's, for this run alone: records and approvals keep the call's own.

        Raises:
            RuntimeError: it was run before.
            ValueError: the tool does not take such arguments.
        """
        ...


Wrap = Callable[[HookCall, Run], Awaitable[Any] | Any]
"""Is given a call and what runs it, and returns its result, or another one in its place; sync or async. It runs within
the tool's timeout and after its intent; when it raises, the tool has.

A `Sleep` or `Wait` of the tool may pass through as it is. One that the wrapper made is an error result."""
