"""How a gateway reaches a supervisor on the same host, and how it reaches nobody."""

from __future__ import annotations

import socket
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from workers.poking import Poker, SocketTaken, listening

Heard = list[tuple[datetime, str]]


async def heard_at_least(heard: Heard, number: int) -> Heard:
    async def told() -> int:
        return len(heard)

    await eventually(told, lambda found: found >= number)
    return heard


async def test_a_poke_says_when_it_was_sent_and_what_for(tmp_path: Path) -> None:
    heard: Heard = []
    path = tmp_path / "new" / "scale.sock"
    before = datetime.now(UTC)
    with listening(str(path), lambda *poke: heard.append(poke)):
        Poker(str(path)).poke("webhooks:1\x1b[2J")
        [(at, what)] = await heard_at_least(heard, 1)
        mode = stat.S_IMODE(path.stat().st_mode)

    assert (before <= at <= datetime.now(UTC), what, mode) == (True, "webhooks:1[2J", 0o600)
    assert not path.exists()


def test_nobody_is_harmed_when_nobody_listens(tmp_path: Path) -> None:
    Poker(str(tmp_path / "nowhere" / "scale.sock")).poke("it")


async def test_more_pokes_than_anybody_reads_block_nobody(tmp_path: Path) -> None:
    heard: Heard = []
    path = str(tmp_path / "scale.sock")
    with listening(path, lambda *poke: heard.append(poke)):
        poker = Poker(path)
        for _ in range(5_000):
            poker.poke("it")
        assert await heard_at_least(heard, 1)


@pytest.mark.parametrize(
    "sent",
    [b"", b"\xff\x00", b"[" * 4_000, b"{}", b"[1]", b'{"at": "soon", "what": "it"}', b'{"at": 5, "what": "it"}'],
    ids=["empty", "bytes", "deep", "object", "list", "time", "number"],
)
async def test_anything_else_counts_as_a_poke_of_now(tmp_path: Path, sent: bytes) -> None:
    heard: Heard = []
    path = str(tmp_path / "scale.sock")
    with listening(path, lambda *poke: heard.append(poke)), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        before = datetime.now(UTC)
        sender.sendto(sent, path)
        [(at, what)] = await heard_at_least(heard, 1)

    assert (before <= at, what) == (True, "")


@pytest.mark.parametrize("off", [timedelta(hours=-1), timedelta(hours=1)], ids=["old", "ahead"])
async def test_a_time_that_cannot_be_is_not_believed(tmp_path: Path, off: timedelta) -> None:
    heard: Heard = []
    path = str(tmp_path / "scale.sock")
    with listening(path, lambda *poke: heard.append(poke)), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(b'{"at": "%s", "what": "it"}' % (datetime.now(UTC) + off).isoformat().encode(), path)
        [(at, what)] = await heard_at_least(heard, 1)

    assert (abs(datetime.now(UTC) - at) < timedelta(minutes=1), what) == (True, "it")


async def test_a_path_belongs_to_one_supervisor_and_is_taken_over_from_a_dead_one(tmp_path: Path) -> None:
    heard: Heard = []
    path = str(tmp_path / "scale.sock")
    dead = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    dead.bind(path)
    dead.close()

    with listening(path, lambda *poke: heard.append(poke)):
        with pytest.raises(SocketTaken, match="another supervisor hears"), listening(path, lambda *_: None):
            pass
        Poker(path).poke("it")
        assert await heard_at_least(heard, 1)


async def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "scale.sock"
    path.write_text("notes")

    with pytest.raises(OSError, match="in use"), listening(str(path), lambda *_: None):
        pass
    assert path.read_text() == "notes"
