"""The wrappers around one run of a tool, the first of them outermost, all in the thread of the tool.

Only a tool parks: a park counts when the tool itself returned it in this run.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from signals.parking import InvalidPark, Sleep, Wait
from tarry.core.gates import arguments_digest
from tarry.hooks import HookCall
from tarry.wraps import Run, Wrap

Values = Callable[[dict[str, Any]], dict[str, Any]]
"""The keyword arguments of the tool, with some of its call's arguments changed."""


class ForeignPark(InvalidPark):
    """A wrapper asked to wait by itself."""


class Wrapped:
    """The wrappers around `function`.

    Sync code that one of them cancels is asked to end by `stop`; when it has not after `grace` seconds, `abandon` is
    told.
    """

    def __init__(
        self,
        wraps: Sequence[Wrap],
        call: HookCall,
        function: Callable[..., Any],
        values: Values,
        stop: threading.Event,
        grace: float,
        abandon: Callable[[], None],
    ) -> None:
        self._wraps = wraps
        self._call = call
        self._function = function
        self._values = values
        self._stop = stop
        self._grace = grace
        self._has_run = False
        self._abandon = abandon
        self._park: Sleep | Wait | None = None

    async def run(self) -> Any:
        """What the outermost wrapper makes of it.

        Raises:
            ForeignPark: a park that the tool did not return.
        """
        value = await self._layer(0)()
        if isinstance(value, Sleep | Wait) and value is not self._park:
            raise ForeignPark("a wrapper asked for it, and only the tool itself may")
        return value

    def _layer(self, depth: int) -> Run:
        """The wrapper at that depth and all below it; below the last one is the tool."""
        if depth == len(self._wraps):
            return self._tool

        async def run(**changed: Any) -> Any:
            # Changes are passed on, whether the wrapper names them again or not.
            below: Run = partial(self._layer(depth + 1), **changed)
            value = self._wraps[depth](self._told(changed), below)
            return await value if inspect.isawaitable(value) else value

        return run

    def _told(self, changed: dict[str, Any]) -> HookCall:
        arguments = self._call.arguments | changed
        return replace(self._call, arguments=arguments, digest=arguments_digest(self._call.tool, arguments))

    async def _tool(self, **changed: Any) -> Any:
        if self._has_run:
            raise RuntimeError("a wrapper may run its tool once")
        self._has_run = True
        value = await self._called(self._values(changed))
        self._park = value if isinstance(value, Sleep | Wait) else None
        return value

    async def _called(self, values: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(self._function):
            return await self._function(**values)
        # In another thread than the wrappers: one with a time limit goes on meanwhile.
        code = partial(contextvars.copy_context().run, partial(self._function, **values))
        running = asyncio.get_running_loop().run_in_executor(None, code)
        try:
            value = await asyncio.shield(running)
        except asyncio.CancelledError:
            await self._end(running)
            raise
        return await value if inspect.isawaitable(value) else value

    async def _end(self, running: asyncio.Future[Any]) -> None:
        # Stopped from outside, it is waited for there, and abandoned with its wrappers.
        limit = None if self._stop.is_set() else self._grace
        self._stop.set()
        _, left = await asyncio.wait({running}, timeout=limit)
        if left:
            self._abandon()
