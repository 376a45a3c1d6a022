"""A directory of this machine: files confined to it, commands that are not.

It protects against mistakes, not against malice: a command may do whatever the worker's user may.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tarry.coding import processes
from tarry.coding.confined import Confined
from tarry.environment import EnvironmentFactory, Exit, Place

INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "TMPDIR", "SSL_CERT_FILE")
"""What a command gets of the worker's own variables: nothing that may be a secret."""


class LocalDirectory(Confined):
    """An `Environment` of the files below `root`; `variables` are what commands get besides `PATH`, `HOME` and such."""

    def __init__(self, root: Path, cwd: str = ".", variables: Mapping[str, str] | None = None) -> None:
        super().__init__(root, cwd)
        self._variables = variables or {}

    def exec(
        self,
        command: str | Sequence[str],
        on_output: Callable[[bytes], None],
        *,
        timeout: float | None = None,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> Exit:
        """See `Environment.exec`."""
        return processes.run(
            shell_line(command),
            on_output,
            cwd=self.folder,
            variables={**inherited(), "TERM": "dumb", **self._variables},
            timeout=timeout,
            is_stopped=is_stopped,
        )


def local(root: Path | str, variables: Mapping[str, str] | None = None) -> EnvironmentFactory:
    """The same directory for every conversation, each at its own `cwd`.

    Args:
        root: the directory; it must exist when a tool needs it.
        variables: environment variables of commands. Of the worker's own they get `PATH`, `HOME`, `LANG` and the
            like, so that its keys are not the model's.
    """

    def environment(place: Place) -> LocalDirectory:
        return LocalDirectory(Path(root), place.cwd or ".", variables)

    return environment


def shell_line(command: str | Sequence[str]) -> list[str]:
    """The program and its arguments; a text is for bash, or for sh where there is none."""
    if isinstance(command, str):
        return [shutil.which("bash") or "/bin/sh", "-c", command]
    return list(command)


def inherited() -> dict[str, str]:
    """The worker's own variables that a command may see."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ}
