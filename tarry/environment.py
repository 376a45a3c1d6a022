"""Where coding tools read, write and run: files below one root, and commands that start there (spec §14.1)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import BinaryIO, Literal, Protocol

FileKind = Literal["file", "directory", "link", "other"]


class NoEnvironment(Exception):
    """No extension of the application gives the conversation an environment."""


class OutsideRoot(PermissionError):
    """A path leads out of the environment's root; nothing was touched."""


@dataclass(frozen=True)
class Place:
    """Whose environment is wanted; `cwd` is what the conversation has chosen, None for the root."""

    conversation_id: str
    cwd: str | None = None


@dataclass(frozen=True)
class FileInfo:
    """What is at a path. `version` changes when the content does."""

    kind: FileKind
    size: int
    version: str


@dataclass(frozen=True)
class Exit:
    """How a command ended; `code` is 128 + n after signal n, as shells say it."""

    code: int
    ended: Literal["exited", "timeout", "stopped"] = "exited"


class Environment(Protocol):
    """Files and commands of one conversation, used from the threads of its tools.

    Paths are relative to `cwd`, or absolute below the root. No path, whatever links say and whoever moves directories
    meanwhile, leads out of the root: `OutsideRoot`. Other errors are those of `open`, with the path that was asked for.
    """

    @property
    def id(self) -> str:
        """Equal ids: the same files."""
        ...

    @property
    def root(self) -> PurePath:
        """The directory as commands see it."""
        ...

    def canonical(self, path: str) -> str:
        """`path` from the root on, with links followed; it need not exist. The root is `.`."""
        ...

    def stat(self, path: str) -> FileInfo:
        """What is there; a link is followed, unless it leads nowhere."""
        ...

    def open(self, path: str) -> BinaryIO:
        """A regular file, to be read."""
        ...

    def write(self, path: str, data: bytes) -> None:
        """Make or replace a file, whole or not at all, and the directories above it; an existing one keeps its mode."""
        ...

    def list(self, path: str) -> list[tuple[str, FileKind]]:
        """The entries of a directory, sorted by name; links are not followed."""
        ...

    def exec(
        self,
        command: str | Sequence[str],
        on_output: Callable[[bytes], None],
        *,
        timeout: float | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Exit:
        """Run a shell's line, or a program with arguments, and wait for its end.

        `on_output` is given stdout and stderr, merged as they come. After `timeout` seconds, once `is_stopped`, when
        `on_output` raises, or when this process ends in whatever way, the command and everything that it started are
        killed, and nothing else. What it leaves running at its own end is not waited for.
        """
        ...


EnvironmentFactory = Callable[[Place], Environment]
