"""Where the files about subagents are, how they are read, replaced and locked (spec §17.20)."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from tarry.core.text import clean_text
from tarry.settings import Settings

AGENTS = "agents"
"""The folder of definitions, below the config dir and below a project's `.tarry`."""
CONFIG = "subagent.json"
"""The settings, in the same two places."""
PROJECT = ".tarry"
"""The folder of a project that these are in."""

MAX_BYTES = 128 * 1024
"""Of one file that is read."""

_WAIT, _POLL = 30, 0.05
"""Seconds for which another process is waited for."""


class FileError(Exception):
    """A file cannot be used as it is. One line: `path:line: what is wrong, and what to do`."""

    def __init__(self, path: Path, text: str, line: int | None = None) -> None:
        said = f"{path}:{line}: {text}" if line is not None else f"{path}: {text}"
        super().__init__(clean_text(said))  # a file's name, or an escape in it, may be no Unicode
        self.path, self.line, self.text = path, line, text


def config_dir(settings: Settings) -> Path:
    """The folder of the user's files; `/etc/tarry` for a user without a home, where the settings name none."""
    try:
        return Path(settings.config_dir).expanduser()
    except RuntimeError:
        return Path("/etc/tarry")


@dataclass(frozen=True)
class Home:
    """The files below a config dir; `state` are those that nobody edits."""

    root: Path

    @property
    def agents(self) -> Path:
        """The definitions of the user."""
        return self.root / AGENTS

    @property
    def config(self) -> Path:
        """The settings of the user."""
        return self.root / CONFIG

    @property
    def trusted(self) -> Path:
        """The projects that this host trusts."""
        return self.root / "trusted.json"

    @property
    def state(self) -> Path:
        """What `tarry agents init` knows of earlier times."""
        return self.root / ".subagents"

    @property
    def manifest(self) -> Path:
        """Which presets were installed, and by which version."""
        return self.state / "agents-manifest.json"

    @property
    def backups(self) -> Path:
        """What was replaced: a folder a pass, `<time>-to-<version>`."""
        return self.state / "backups"


def read_text(path: Path) -> str:
    """The text of a regular file, a link to one too; without a byte order mark, its line ends as LF.

    Raises:
        FileError: it cannot be read, is no regular file, too large, or no UTF-8.
        FileNotFoundError: nothing is there.
    """
    try:
        # What is no regular file may never end, or never begin.
        if path.exists() and not path.is_file():
            raise FileError(path, "is no regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        if path.is_symlink():
            raise FileError(path, f"is a link to {os.readlink(path)}, where nothing is") from None
        raise
    except OSError as error:
        raise FileError(path, f"cannot be read: {error.strerror or error}") from error
    if len(data) > MAX_BYTES:
        raise FileError(path, f"is larger than the {MAX_BYTES} bytes that are read")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise FileError(path, "is no UTF-8 text: save it as UTF-8", line) from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def write_whole(path: Path, data: bytes) -> None:
    """Make or replace a file, whole or not at all. Callers hold the lock: the name beside it is always the same."""
    staged = path.with_name(f".{path.name}.staged")
    try:
        stage(staged, data)
        staged.replace(path)
    finally:
        staged.unlink(missing_ok=True)


def stage(path: Path, data: bytes) -> None:
    """Write a new file at `path`, in place of anything that a killed process left there, and have it on the disk."""
    path.unlink(missing_ok=True)
    with path.open("xb") as file:
        file.write(data)
        file.flush()
        # Before any rename, or a power cut leaves an empty file under the wanted name.
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Have the names in a folder on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def locked(home: Home) -> Iterator[None]:
    """Keep every other process from changing these files; a process that is killed lets go.

    Raises:
        FileError: another process holds the lock for 30 seconds, or there can be none.
    """
    lock = home.state / "lock"
    try:
        home.state.mkdir(parents=True, exist_ok=True)
        file = lock.open("ab")
    except OSError as error:
        raise FileError(lock, f"cannot be made: {error.strerror or error}") from error
    with file:
        for _ in range(round(_WAIT / _POLL)):
            if _has_locked(file, lock):
                break
            time.sleep(_POLL)
        else:
            raise FileError(lock, f"another process has held this lock for {_WAIT} s: let it end, and try again")
        yield


def _has_locked(file: BinaryIO, path: Path) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # there are file systems without locks
        raise FileError(path, f"cannot be locked: {error.strerror or error}") from error
    return True
