"""Installing the presets over whatever users and versions do: nothing of theirs is lost (spec §17.25)."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from tarry.subagents.files import FileError
from tests.support.presets import Host

NAMES = ("one", "two", "three")
BUNDLES = [
    {name: f"{name} of {version}".encode() for name in NAMES[:count]} for version, count in enumerate((2, 3, 1, 2))
]


class Presets(RuleBasedStateMachine):
    """A user who edits, deletes, links and restores, and passes of versions that bring and drop presets."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.host = Host(self.folder / "config")
        self.host.write("mine", "never a preset")
        self.written: set[str] = set()
        """Texts of the user that the user has not deleted or written over."""
        self.deleted: set[str] = set()
        """Presets that the user deleted after a pass had installed them."""
        self.version = -1

    def teardown(self) -> None:
        shutil.rmtree(self.folder)

    @rule(name=st.sampled_from(NAMES), number=st.integers(0, 999))
    def edit(self, name: str, number: int) -> None:
        path = self.host.home.agents / f"{name}.md"
        if path.exists():
            self.written.discard(path.read_text())
        text = f"user's {number} of {name}"
        self.host.write(name, text)
        self.written.add(text)
        self.deleted.discard(name)

    @rule(name=st.sampled_from(NAMES))
    def delete(self, name: str) -> None:
        path = self.host.home.agents / f"{name}.md"
        if not path.exists():
            return
        self.written.discard(path.read_text())
        path.unlink()
        # One that was put back and is gone again before a pass saw it is as deleted as it was.
        if self.version >= 0 and name in (*self.host.manifest.managed, *self.host.manifest.retired):
            self.deleted.add(name)

    @precondition(lambda self: self.version >= 0)
    @rule()
    def same_version(self) -> None:
        before = self.host.files

        self.host.init(BUNDLES[self.version], str(self.version))

        assert self.host.files == before

    @rule(version=st.integers(0, len(BUNDLES) - 1))
    def other_version(self, version: int) -> None:
        if version == self.version:
            return
        bundled = BUNDLES[version]
        self.deleted &= set(bundled)

        done = self.host.init(bundled, str(version))

        self.version = version
        files = self.host.files
        assert set(done.deleted) == self.deleted
        assert {name: files.get(name) for name in bundled if name not in self.deleted} == {
            name: text.decode() for name, text in bundled.items() if name not in self.deleted
        }

    @rule(version=st.integers(0, len(BUNDLES) - 1), fails_at=st.integers(1, 4))
    def failing_version(self, version: int, fails_at: int) -> None:
        """A rename of another version's pass fails; when there are fewer of them, it is a pass like any."""
        if version == self.version:
            return
        before, calls, replace = self.host.files, [0], os.replace

        def fails(source: Path, target: Path) -> None:
            calls[0] += 1
            if calls[0] == fails_at:
                raise OSError(28, "No space left on device", str(target))
            replace(source, target)

        with patch("os.replace", fails):
            try:
                self.host.init(BUNDLES[version], str(version))
            except FileError:
                assert self.host.files == before
                return
        self.version = version
        self.deleted &= set(BUNDLES[version])

    @invariant()
    def no_text_of_the_user_is_lost(self) -> None:
        kept = {path.read_text() for path in self.host.home.backups.glob("*/*.md")} | set(self.host.files.values())
        assert self.written <= kept

    @invariant()
    def what_was_never_a_preset_is_as_it_was(self) -> None:
        assert self.host.files["mine"] == "never a preset"

    @invariant()
    def what_the_user_deleted_stays_deleted(self) -> None:
        assert not self.deleted & set(self.host.files)

    @invariant()
    def nothing_is_left_beside(self) -> None:
        assert not [name for name in self.host.files if name.startswith(".")]


def test_no_text_of_a_user_is_lost_and_nothing_that_was_deleted_comes_back() -> None:
    limits = settings(max_examples=30, stateful_step_count=15, deadline=None)

    run_state_machine_as_test(Presets, settings=limits)
