"""A host on which presets are installed, again and again."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tarry.subagents.files import Home
from tarry.subagents.initialise import Initialised, initialise
from tarry.subagents.manifest import Manifest, read_manifest

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ONE = {"scout": b"scout 1", "worker": b"worker 1"}
TWO = {"scout": b"scout 2", "worker": b"worker 2", "tester": b"tester 2"}


class Host:
    """A config dir, and one pass after another over it."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root)
        self._passes = 0

    def init(self, bundled: dict[str, bytes], version: str) -> Initialised:
        self._passes += 1
        return initialise(self.home, bundled, version=version, now=NOW + timedelta(seconds=self._passes))

    def write(self, name: str, text: str) -> None:
        self.home.agents.mkdir(parents=True, exist_ok=True)
        (self.home.agents / f"{name}.md").write_text(text)

    def delete(self, name: str) -> None:
        (self.home.agents / f"{name}.md").unlink()

    @property
    def files(self) -> dict[str, str]:
        """Everything in the folder, hidden files too; of a link where it leads."""
        return {
            path.name.removesuffix(".md"): f"-> {os.readlink(path)}" if path.is_symlink() else path.read_text()
            for path in sorted(self.home.agents.iterdir())
        }

    @property
    def manifest(self) -> Manifest:
        found = read_manifest(self.home)
        assert found is not None
        return found

    @property
    def backups(self) -> list[str]:
        return sorted(str(path.relative_to(self.home.backups)) for path in self.home.backups.glob("*/*"))
