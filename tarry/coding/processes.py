"""Running a command under its warden: output as it comes, a time limit, a Stop (spec §14.3)."""

from __future__ import annotations

import contextlib
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tarry.coding import warden
from tarry.environment import Exit

LOOK_SECONDS = 0.05
"""How soon a Stop is seen."""

STDIO_GRACE = 0.1
"""How long output is still read after the command's own end: what it left running may hold the pipe for ever."""

CHUNK = 64 * 1024


def run(
    command: Sequence[str],
    on_output: Callable[[bytes], None],
    *,
    cwd: Path,
    variables: Mapping[str, str],
    timeout: float | None,
    is_stopped: Callable[[], bool],
) -> Exit:
    """Run `command` in `cwd` with these environment variables alone; see `Environment.exec`."""
    guarded = [sys.executable, "-I", "-S", warden.__file__, *command]
    process = subprocess.Popen(
        guarded,
        cwd=cwd,
        env=dict(variables),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return _attend(process, on_output, None if timeout is None else time.monotonic() + timeout, is_stopped)
    finally:
        _end(process)


def _attend(
    process: subprocess.Popen[bytes],
    on_output: Callable[[bytes], None],
    deadline: float | None,
    is_stopped: Callable[[], bool],
) -> Exit:
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while process.poll() is None:
            if is_stopped():
                return _killed(process, on_output, Exit(128 + 9, "stopped"))
            if deadline is not None and time.monotonic() >= deadline:
                return _killed(process, on_output, Exit(128 + 9, "timeout"))
            _read(process, selector, on_output, LOOK_SECONDS)
        last = time.monotonic() + STDIO_GRACE
        while selector.get_map() and (left := last - time.monotonic()) > 0:
            _read(process, selector, on_output, left)
    return Exit(process.returncode if process.returncode >= 0 else 128 - process.returncode)


def _read(
    process: subprocess.Popen[bytes],
    selector: selectors.BaseSelector,
    on_output: Callable[[bytes], None],
    seconds: float,
) -> None:
    assert process.stdout is not None
    if not selector.get_map():  # the output is closed; only the end is awaited
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
    elif selector.select(seconds):
        piece = os.read(process.stdout.fileno(), CHUNK)
        if piece:
            on_output(piece)
        else:
            selector.unregister(process.stdout)


def _killed(process: subprocess.Popen[bytes], on_output: Callable[[bytes], None], end: Exit) -> Exit:
    """Have everything killed, and give out what had been written by then."""
    assert process.stdout is not None
    _end(process, close_output=False)
    with contextlib.suppress(BlockingIOError):
        while piece := os.read(process.stdout.fileno(), CHUNK):
            on_output(piece)
    return end


def _end(process: subprocess.Popen[bytes], *, close_output: bool = True) -> None:
    """Close the warden's standard input, which ends whatever still runs, and wait for it."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    try:
        process.wait(warden.KILL_SECONDS + 1)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if close_output:
        process.stdout.close()
