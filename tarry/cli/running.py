"""Running a command's coroutine so that Ctrl-C and SIGTERM end it in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Coroutine
from typing import Any, TypeVar

from tarry.cli.exits import ExitCode, Problem

T = TypeVar("T")

_SHOW_CURSOR = "\x1b[?25h"


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end. A first Ctrl-C or SIGTERM cancels it, a second one ends the process at once.

    Raises:
        Problem: it was interrupted and said nothing else about it.
    """
    return asyncio.run(_interruptible(work))


async def _interruptible(work: Coroutine[Any, Any, T]) -> T:
    task = asyncio.current_task()
    assert task is not None
    is_told = False
    modes = termios.tcgetattr(sys.stdin) if sys.stdin.isatty() else None

    def told() -> None:
        nonlocal is_told
        if is_told:
            _end_at_once(modes)
        is_told = True
        task.cancel()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told)
    try:
        return await work
    except asyncio.CancelledError:
        if not is_told:
            raise
        raise Problem(ExitCode.INTERRUPTED, "interrupted", "interrupted") from None


def _end_at_once(modes: list[Any] | None) -> None:
    """Children are tethered to this process and end with it."""
    if sys.stderr.isatty():
        os.write(sys.stderr.fileno(), _SHOW_CURSOR.encode())
    if modes is not None:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, modes)
    os._exit(ExitCode.INTERRUPTED)
