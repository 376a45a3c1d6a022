"""Points at which the code of a worker holds until it is let go, or its process is killed there.

The worker's code tells of each point it comes to (`stop_at`); who runs the workers has a plan for each conversation,
and any point that is not planned next is passed at once. Nothing is timed.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
from collections import Counter, defaultdict
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass
from typing import Self, TypeVar

LOOPBACK = "127.0.0.1"
VARIABLE = "DRILL_POINTS"
"""Tells a worker's code where to tell of points, as host:port."""

PATIENCE = 120.0
"""Seconds after which what was not reached never will be, such as a point or an answer."""

T = TypeVar("T")


@dataclass
class Arrival:
    """A worker's code at a point. It goes on when it is let go, and never if its process is killed."""

    point: str
    conversation_id: str
    pid: int
    _writer: asyncio.StreamWriter

    def let_go(self) -> None:
        """Let it go on."""
        self._writer.close()

    def signal(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send its process a signal, by default the one that ends it at once."""
        os.kill(self.pid, number)


class Points:
    """Where workers hold: each conversation has a plan, a list of points, and any other point is passed."""

    def __init__(self) -> None:
        self._plans: dict[str, list[str]] = {}
        self._deadly: set[str] = set()
        self._arrivals: defaultdict[str, asyncio.Queue[Arrival]] = defaultdict(asyncio.Queue)
        self._waiting: list[Arrival] = []
        self._seen: Counter[tuple[str, str]] = Counter()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        host, port = self._server.sockets[0].getsockname()
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for arrival in self._waiting:
            arrival.let_go()

    def plan(self, conversation_id: str, points: Sequence[str], *, deadly: bool = False) -> None:
        """Hold at each of `points` once, in this order; at deadly ones the worker's process is killed."""
        self._plans[conversation_id] = list(points)
        if deadly:
            self._deadly.add(conversation_id)

    def passed(self, conversation_id: str, point: str) -> int:
        """How often code of the conversation came to a point, planned or not, and whatever became of it."""
        return self._seen[conversation_id, point]

    async def reached(self, conversation_id: str) -> Arrival:
        """The next stop of the conversation's plan; at a deadly one its process is dead already.

        Raises:
            TimeoutError: it was not reached within 120 s.
        """
        left = self._plans.get(conversation_id, [])
        return await in_time(self._arrivals[conversation_id].get(), f"{conversation_id} does not come to {left}")

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        told = await reader.readline()
        if not told:
            return writer.close()
        arrival = Arrival(**json.loads(told), _writer=writer)
        self._seen[arrival.conversation_id, arrival.point] += 1
        plan = self._plans.get(arrival.conversation_id, [])
        if not plan or plan[0] != arrival.point:
            return arrival.let_go()
        plan.pop(0)
        if arrival.conversation_id in self._deadly:
            arrival.signal()
        self._waiting.append(arrival)
        return self._arrivals[arrival.conversation_id].put_nowait(arrival)


async def in_time(what: Awaitable[T], otherwise: str) -> T:
    """What it comes to.

    Raises:
        TimeoutError: it did not within 120 s, told as `otherwise`.
    """
    try:
        async with asyncio.timeout(PATIENCE):
            return await what
    except TimeoutError:
        raise TimeoutError(f"{otherwise} within {PATIENCE:g} s") from None


def stop_at(point: str, conversation_id: str) -> None:
    """Tell that this point is reached, and return when it may be passed. For code in a thread of its own."""
    host, _, port = os.environ[VARIABLE].partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(_arrival(point, conversation_id))
        connection.recv(1)


async def async_stop_at(point: str, conversation_id: str) -> None:
    """`stop_at` for code on an event loop."""
    host, _, port = os.environ[VARIABLE].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(_arrival(point, conversation_id))
        await reader.read(1)
    finally:
        writer.close()


def _arrival(point: str, conversation_id: str) -> bytes:
    facts = {"point": point, "conversation_id": conversation_id, "pid": os.getpid()}
    return json.dumps(facts).encode() + b"\n"
