"""What work publishes: of a tool a bounded whole for its result, of any work the newest part for its heartbeats.

Written from a tool's thread, read on the worker's loop. A flood of text costs that loop one wake-up
for each heartbeat, not one for each piece.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections import deque
from collections.abc import Callable

from tarry.core.messages import Usage
from tarry.core.protocol import Progress
from tarry.core.text import clean_text

KEPT_BYTES = 1024 * 1024
"""How much of the output, from its start, can become the result of a tool that returns nothing."""

TAIL_BYTES = 15 * 1024
"""How much of the newest output a heartbeat carries: what survives a crash (spec §4.6).

Twice as much, every character escaped, is still no work for the store: a heartbeat that cannot be
sent would stop the work.
"""

_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
"""What no model is shown, and what JSON takes six characters for."""


def progress_of(text: str) -> Progress:
    """The newest part of `text` as a heartbeat may carry it."""
    shown = _CONTROLS.sub("", clean_text(text))
    newest = shown.encode()[-TAIL_BYTES:].decode(errors="ignore")
    return Progress(text=newest, offset=len(shown) - len(newest))


class Output:
    """Pieces of text in the order of their publication.

    Make it on the loop that heartbeats: `touch` is called there when there is something new since
    `progress` was last read.
    """

    def __init__(self, touch: Callable[[], None]) -> None:
        self._touch = touch
        self._usage: Usage | None = None
        self._home = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._is_announced = False
        self._head: list[str] = []
        self._head_bytes = 0
        self._tail: deque[bytes] = deque()
        self._tail_bytes = 0
        self._total_bytes = 0
        self._characters = 0

    def add(self, text: str) -> None:
        """Append `text`, from any thread: invalid Unicode is replaced, control characters are dropped (spec §4.11)."""
        piece = _CONTROLS.sub("", clean_text(text))
        if not piece:
            return
        with self._lock:
            self._keep(piece)
        self._announce()

    def spend(self, usage: Usage) -> None:
        """Add to what the work has spent, from any thread."""
        with self._lock:
            self._usage = usage if self._usage is None else self._usage + usage
        self._announce()

    @property
    def usage(self) -> Usage | None:
        """What the work has spent so far; None: it did not say."""
        with self._lock:
            return self._usage

    def _announce(self) -> None:
        with self._lock:
            is_announced, self._is_announced = self._is_announced, True
        if not is_announced:
            # The worker's loop may be gone under an abandoned thread; then nobody reads this any more.
            with contextlib.suppress(RuntimeError):
                self._home.call_soon_threadsafe(self._touch)

    def _keep(self, piece: str) -> None:
        data = piece.encode()
        self._total_bytes += len(data)
        self._characters += len(piece)
        room = KEPT_BYTES - self._head_bytes
        if room > 0:
            self._head.append(data[:room].decode(errors="ignore"))
            # A cut piece fills the head, its broken character included: nothing later may follow it.
            self._head_bytes += min(len(data), room)
        self._tail.append(data[-TAIL_BYTES:])
        self._tail_bytes += len(self._tail[-1])
        while self._tail_bytes - len(self._tail[0]) >= TAIL_BYTES:
            self._tail_bytes -= len(self._tail.popleft())

    def whole(self) -> str:
        """The output from its start, at most `KEPT_BYTES` of it."""
        with self._lock:
            return "".join(self._head)

    @property
    def dropped_bytes(self) -> int:
        """How much `whole` leaves out."""
        return max(0, self._total_bytes - KEPT_BYTES)

    @property
    def progress(self) -> Progress:
        """What a heartbeat carries: the newest output, at most `TAIL_BYTES` of it, starting at a character."""
        with self._lock:
            self._is_announced = False
            newest = b"".join(self._tail)[-TAIL_BYTES:].decode(errors="ignore")
            return Progress(text=newest, offset=self._characters - len(newest), usage=self._usage)

    @property
    def tail(self) -> str:
        """The text of `progress`."""
        return self.progress.text
