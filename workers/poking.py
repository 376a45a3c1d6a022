"""A gateway tells a supervisor of the same host that work comes, so that waking does not wait for the next look.

By datagrams on a Unix socket: nobody waits for an answer, and nobody is harmed when none listens. The file's mode says
who may send; a datagram says no more than when work came and what it was.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

Poked = Callable[[datetime, str], None]
"""Is told when work came, and what it was."""

_OLDEST = timedelta(minutes=1)
_LONGEST = 4_096
_NAMED = 200


class SocketTaken(Exception):
    """Another supervisor listens at this path. One line."""


class Poker:
    """Sends pokes to a path at which somebody may listen."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)

    def poke(self, what: str) -> None:
        """Say that work comes. Nothing where nobody listens, or where so much is unread that one more says nothing."""
        told = json.dumps({"at": datetime.now(UTC).isoformat(), "what": what[:_NAMED]})
        try:
            self._socket.sendto(told.encode(), self._path)
        except OSError as error:
            logging.debug("nobody was poked at %s: %s", self._path, error)


@contextlib.contextmanager
def listening(path: str, poked: Poked) -> Iterator[None]:
    """Hear pokes at `path` within the context, in the running loop.

    Raises:
        SocketTaken: somebody listens there.
        OSError: there can be no socket at this path.
    """
    with _bound(Path(path)) as receiver:
        loop = asyncio.get_running_loop()
        loop.add_reader(receiver, _receive, receiver, poked)
        try:
            yield
        finally:
            loop.remove_reader(receiver)


@contextlib.contextmanager
def _bound(path: Path) -> Iterator[socket.socket]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as receiver:
        receiver.setblocking(False)
        _free(path)
        receiver.bind(str(path))
        path.chmod(0o600)
        ours = path.stat().st_ino
        try:
            yield receiver
        finally:
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == ours:
                    path.unlink()


def _free(path: Path) -> None:
    """Take away what a supervisor that was killed has left there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        try:
            sender.connect(str(path))
        except FileNotFoundError:
            return
        except ConnectionRefusedError:
            if path.is_socket():
                path.unlink()
            return
    raise SocketTaken(f"another supervisor hears of deliveries at {path}")


def _receive(receiver: socket.socket, poked: Poked) -> None:
    with contextlib.suppress(BlockingIOError):
        poked(*_read(receiver.recv(_LONGEST), datetime.now(UTC)))


def _read(told: bytes, now: datetime) -> tuple[datetime, str]:
    """When and what; now, where it does not say, or says what cannot be."""
    try:
        found = json.loads(told)
        at, what = datetime.fromisoformat(found["at"]).astimezone(UTC), str(found["what"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return now, ""
    said = "".join(letter for letter in what[:_NAMED] if letter.isprintable())
    return at if now - _OLDEST <= at <= now else now, said
