"""A directory of this machine whose commands are shut in with it, by bubblewrap (spec §14.4).

A command sees the root, the system's programs, devices and a temporary directory of its own; no other file, no other
process and, unless it is allowed, no network. It may fill disk and memory: those limits are the host's.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from tarry.coding import processes
from tarry.coding.confined import Confined
from tarry.coding.local import shell_line
from tarry.environment import EnvironmentFactory, Exit, NoEnvironment, Place

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/lib32")
SETTINGS = (
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime", "/etc/ssl"),
    *("/etc/ca-certificates", "/etc/pki", "/etc/mime.types", "/etc/passwd", "/etc/group", "/etc/nsswitch.conf"),
)
NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/services", "/etc/protocols")
"""Of /etc what programs need; the rest may hold secrets."""

VARIABLES = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8", "TERM": "dumb"}


class SandboxedDirectory(Confined):
    """An `Environment` of the files below `root`, mounted for commands where it is on this machine."""

    def __init__(
        self,
        root: Path,
        cwd: str = ".",
        *,
        variables: Mapping[str, str] | None = None,
        readable: Sequence[Path] = (),
        network: bool = False,
    ) -> None:
        super().__init__(root, cwd)
        self._variables = {**VARIABLES, **(variables or {})}
        self._readable = readable
        self._network = network

    def exec(
        self,
        command: str | Sequence[str],
        on_output: Callable[[bytes], None],
        *,
        timeout: float | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Exit:
        """See `Environment.exec`. What a command leaves running ends with it.

        Raises:
            NoEnvironment: there is no bubblewrap, or this host lets nobody use it.
        """
        return processes.run(
            [*self._wall(), "--", *shell_line(command)],
            on_output,
            cwd=self.root,
            variables=self._variables,
            timeout=timeout,
            is_stopped=is_stopped,
        )

    def _wall(self) -> list[str]:
        wall = [_bubblewrap(), "--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop"]
        wall += ["ALL", *(["--share-net"] if self._network else [])]
        for place in (*SYSTEM, *SETTINGS, *(NETWORK if self._network else ())):
            wall += _shown(Path(place))
        wall += ["--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/run"]
        for path in self._readable:
            wall += ["--ro-bind", str(path.resolve()), str(path)]
        return [*wall, "--bind", str(self.root), str(self.root), "--chdir", str(self.folder)]


def sandboxed(
    root: Path | str,
    variables: Mapping[str, str] | None = None,
    readable: Sequence[Path | str] = (),
    *,
    network: bool = False,
) -> EnvironmentFactory:
    """The same directory for every conversation, each at its own `cwd`, its commands shut in with it.

    Args:
        root: the directory, the only one that commands can write to and keep.
        variables: environment variables of commands; nothing of the worker's own is passed on.
        readable: directories that commands may read as well, such as a virtual environment.
        network: whether commands may use the network of the host, its loopback included.
    """

    def environment(place: Place) -> SandboxedDirectory:
        paths = [Path(path) for path in readable]
        return SandboxedDirectory(Path(root), place.cwd or ".", variables=variables, readable=paths, network=network)

    return environment


def _shown(path: Path) -> list[str]:
    """How the sandbox gets a part of the system: the same link, or the same files."""
    if path.is_symlink() and path.parent == Path("/"):
        return ["--symlink", str(path.readlink()), str(path)]
    return ["--ro-bind-try", str(path), str(path)]


@lru_cache(maxsize=1)
def _bubblewrap() -> str:
    """The program, once it has shown that it works here."""
    program = shutil.which("bwrap")
    if program is None:
        raise NoEnvironment("a sandbox needs bubblewrap: install it (Debian: apt-get install bubblewrap)")
    wall = [program, "--unshare-all", "--unshare-user", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    tried = subprocess.run(wall, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if tried.returncode != 0:
        problem = tried.stderr.strip() or f"exit code {tried.returncode}"
        raise NoEnvironment(f"bubblewrap does not work on this host, which may forbid user namespaces: {problem}")
    return program
