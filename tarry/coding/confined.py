"""A directory that no path leads out of (spec §14.2).

Every part of a path is opened by itself, relative to the directory before it and without following a link; links are
read and walked the same way. So whatever another process puts there meanwhile, the kernel is never asked to follow it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import stat
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal

from tarry.environment import FileInfo, FileKind, OutsideRoot

Missing = Literal["refused", "made", "allowed"]

MAX_LINKS = 40
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class Spot:
    """Where a path ends: an open directory, and the name of what is in it; `.` for the directory itself."""

    directory: int
    name: str
    canonical: str


class Confined:
    """The files below `root`; relative paths begin at `cwd`, which is below it."""

    def __init__(self, root: Path, cwd: str = ".") -> None:
        self._given = root.expanduser().absolute()
        self._root = self._given.resolve()
        self._start = "."
        self._start = self.canonical(cwd)

    @property
    def root(self) -> Path:
        """The directory, its own links followed."""
        return self._root

    @property
    def id(self) -> str:
        """The directory: environments with one id have the same files."""
        return str(self.root)

    @property
    def folder(self) -> Path:
        """Where relative paths and commands begin.

        Raises:
            NotADirectoryError: there is no such directory.
        """
        try:
            self.list(".")
        except OSError as error:
            raise NotADirectoryError(
                f"the working directory {self.root / self._start} cannot be used: {error}"
            ) from error
        return self.root / self._start

    def canonical(self, path: str) -> str:
        """See `Environment.canonical`."""
        with self._walked(path, missing="allowed") as spot:
            return spot.canonical

    def stat(self, path: str) -> FileInfo:
        """See `Environment.stat`."""
        with self._walked(path) as spot, _told_of(path):
            found = os.stat(spot.name, dir_fd=spot.directory, follow_symlinks=False)
        return FileInfo(_kind(found.st_mode), found.st_size, f"{found.st_ino}.{found.st_size}.{found.st_mtime_ns}")

    def open(self, path: str) -> BinaryIO:
        """See `Environment.open`."""
        with self._walked(path) as spot, _told_of(path):
            descriptor = os.open(spot.name, _READ, dir_fd=spot.directory)
        kind = _kind(os.fstat(descriptor).st_mode)
        if kind == "file":
            return os.fdopen(descriptor, "rb")
        os.close(descriptor)
        raise IsADirectoryError(f"{path} is a directory") if kind == "directory" else OSError(f"{path} is no file")

    def list(self, path: str) -> list[tuple[str, FileKind]]:
        """See `Environment.list`."""
        with self._walked(path) as spot, _told_of(path):
            descriptor = os.open(spot.name, _DIRECTORY, dir_fd=spot.directory)
            try:
                with os.scandir(descriptor) as entries:
                    return sorted((entry.name, _kind_of(entry)) for entry in entries)
            finally:
                os.close(descriptor)

    def write(self, path: str, data: bytes) -> None:
        """See `Environment.write`."""
        with self._walked(path, missing="made") as spot, _told_of(path):
            replaced = _replaceable(spot, path)
            temporary = f".tarry-{secrets.token_hex(8)}"
            try:
                with os.fdopen(os.open(temporary, _CREATE, 0o666, dir_fd=spot.directory), "wb") as file:
                    if replaced is not None:
                        _dress(file.fileno(), replaced)
                    file.write(data)
                os.rename(temporary, spot.name, src_dir_fd=spot.directory, dst_dir_fd=spot.directory)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(temporary, dir_fd=spot.directory)
                raise

    @contextlib.contextmanager
    def _walked(self, path: str, *, missing: Missing = "refused") -> Iterator[Spot]:
        """Walk to what `path` names; `missing` says what becomes of directories on the way that are not there."""
        walk = _Walk(self, path, missing)
        try:
            inside = self.inside(path)
            walk.ahead.extend([*_parts(self._start), *_parts(path)] if inside is None else _parts(inside))
            while walk.ahead:
                walk.step(walk.ahead.popleft())
            yield walk.spot
        finally:
            walk.close()

    def inside(self, path: str) -> str | None:
        """An absolute path from the root on; None for a relative one.

        Raises:
            OutsideRoot: it does not begin with the root.
        """
        if not path.startswith("/"):
            return None
        for root in (self.root, self._given):
            if PurePosixPath(path).is_relative_to(root):
                return str(PurePosixPath(path).relative_to(root))
        raise OutsideRoot(f"{path} is outside of {self.root}")


class _Walk:
    """A walk from the root: the directories it has open, the names that led there, and the parts that are ahead."""

    def __init__(self, confined: Confined, path: str, missing: Missing) -> None:
        self.ahead: deque[str] = deque()
        self._confined = confined
        self._path = path
        self._missing = missing
        self._names: list[str] = []
        self._links = 0
        self._imagined = 0
        with _told_of(str(confined.root)):
            self._directories = [os.open(confined.root, _DIRECTORY)]

    @property
    def spot(self) -> Spot:
        """Where the walk has ended."""
        canonical = "/".join(self._names) or "."
        is_entered = len(self._directories) > len(self._names)
        return Spot(self._directories[-1], "." if is_entered else self._names[-1], canonical)

    def step(self, part: str) -> None:
        """Take the next part: up, along a link, or down; the last one is not entered."""
        if part == "..":
            self._up()
        elif self._imagined:
            self._imagine(part)
        elif (target := self._link(part)) is not None:
            self._follow(target)
        else:
            self._down(part)

    def close(self) -> None:
        """Close what is open."""
        self._leave(0)

    def _up(self) -> None:
        if not self._names:
            raise OutsideRoot(f"{self._path} leads out of {self._confined.root}")
        self._names.pop()
        if self._imagined:
            self._imagined -= 1
        else:
            self._leave(len(self._names) + 1)

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > MAX_LINKS:
            raise OSError(errno.ELOOP, f"{self._path} goes through more than {MAX_LINKS} links")
        inside = self._confined.inside(target)
        if inside is not None:
            self._names.clear()
            self._leave(1)
        self.ahead.extendleft(reversed(_parts(target if inside is None else inside)))

    def _down(self, part: str) -> None:
        if self.ahead:
            try:
                self._enter(part)
            except FileNotFoundError:
                if self._missing != "allowed":
                    raise
                self._imagine(part)
                return
        self._names.append(part)

    def _enter(self, part: str) -> None:
        with _told_of(self._path):
            if self._missing == "made":
                with contextlib.suppress(FileExistsError):
                    os.mkdir(part, dir_fd=self._directories[-1])
            self._directories.append(os.open(part, _DIRECTORY, dir_fd=self._directories[-1]))

    def _imagine(self, part: str) -> None:
        self._names.append(part)
        self._imagined += 1

    def _link(self, part: str) -> str | None:
        try:
            return os.readlink(part, dir_fd=self._directories[-1])
        except OSError as error:
            if error.errno in (errno.EINVAL, errno.ENOENT):
                return None
            with _told_of(self._path):
                raise

    def _leave(self, left: int) -> None:
        while len(self._directories) > left:
            os.close(self._directories.pop())


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


@contextlib.contextmanager
def _told_of(path: str) -> Iterator[None]:
    """Errors of the kernel name `path`, not a part of it."""
    try:
        yield
    except OSError as error:
        if error.errno is None:
            raise
        meaning = "is a link that was made just now" if error.errno == errno.ELOOP else os.strerror(error.errno).lower()
        raise type(error)(f"{path}: {meaning}") from error


def _dress(descriptor: int, like: os.stat_result) -> None:
    """Give a file the owner, as far as that is allowed, and the mode of another."""
    with contextlib.suppress(PermissionError):
        os.fchown(descriptor, like.st_uid, like.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(like.st_mode))


def _replaceable(spot: Spot, path: str) -> os.stat_result | None:
    """The file that would be replaced; None: there is none."""
    if spot.name == ".":
        raise IsADirectoryError(f"{path} is a directory")
    try:
        found = os.stat(spot.name, dir_fd=spot.directory, follow_symlinks=False)
    except FileNotFoundError:
        return None
    kind = _kind(found.st_mode)
    if kind != "file":
        raise IsADirectoryError(f"{path} is a directory") if kind == "directory" else OSError(f"{path} is no file")
    return found


def _kind(mode: int) -> FileKind:
    if stat.S_ISLNK(mode):
        return "link"
    return "directory" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


def _kind_of(entry: os.DirEntry[str]) -> FileKind:
    if entry.is_symlink():
        return "link"
    if entry.is_dir(follow_symlinks=False):
        return "directory"
    return "file" if entry.is_file(follow_symlinks=False) else "other"
