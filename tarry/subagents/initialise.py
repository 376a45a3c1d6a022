"""Installing the presets into the user's folder of agents: a command of one host (spec §17.25).

Everything is looked at and written beside its place first; then each file is put there by one rename, the manifest
last. A rename that fails takes back those before it. A pass that was killed is gone through again by the next one,
which finds what was done already as it wants it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from tarry.subagents.files import FileError, Home, locked, stage, sync_folder, write_whole
from tarry.subagents.manifest import CorruptManifest, Manifest, keep_corrupt, read_manifest


@dataclass(frozen=True)
class Initialised:
    """What a pass did, by names of presets.

    `removed` are not presets any more, `deleted` were deleted by the user and are not restored. `backups`: of what was
    updated or removed.
    """

    version: str
    previous: str | None
    installed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    backups: Mapping[str, Path] = field(default_factory=dict)


@dataclass(frozen=True)
class _Plan:
    """What is to be done; nothing of it is yet."""

    manifest: Manifest
    installed: tuple[str, ...] = ()
    updated: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


def initialise(home: Home, bundled: Mapping[str, bytes], *, version: str, now: datetime) -> Initialised:
    """Install the presets as version `version` has them, if that was not done before.

    Raises:
        CorruptManifest: it is damaged; a copy is kept and nothing else changed.
        FileError: something cannot be read or written, or another process does not let go; nothing is changed.
    """
    with locked(home):
        try:
            before = read_manifest(home)
        except CorruptManifest:
            raise CorruptManifest(home.manifest, _kept(home)) from None
        _require_folder(home.agents)
        plan = _plan(home, bundled, before, version)
        pass_ = _Pass(home, home.backups / f"{now:%Y%m%dT%H%M%S.%fZ}-to-{version}")
        if before is None or plan.manifest != before:
            pass_.run(plan, bundled)
    return Initialised(
        version=version,
        previous=before.version if before else None,
        installed=plan.installed,
        updated=plan.updated,
        removed=plan.removed,
        deleted=tuple(plan.manifest.retired),
        backups={name: pass_.backup(name) for name in sorted((*plan.updated, *plan.removed))},
    )


def _kept(home: Home) -> Path:
    try:
        return keep_corrupt(home)
    except OSError as error:
        text = f"is damaged, and a copy of it cannot be written: {error.strerror or error}"
        raise FileError(home.manifest, text) from error


def _require_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise FileError(folder, "is no folder: move it away") from None
    except OSError as error:
        raise FileError(folder, f"cannot be made: {error.strerror or error}") from error


def _plan(home: Home, bundled: Mapping[str, bytes], before: Manifest | None, version: str) -> _Plan:
    """What the rules of §17.25 say for what is there now."""
    known = set(before.managed) | set(before.retired) if before else set[str]()
    there = {name for name in {*known, *bundled} if _is_there(_file(home, name))}
    # A managed one that is gone was deleted; a deleted one that is there again is managed again.
    managed, deleted = known & there, known - there
    if before is not None and before.version == version:
        return _Plan(_manifest(version, managed, deleted))
    deleted &= set(bundled)
    wanted = set(bundled) - deleted
    different = {name for name in wanted & there if not _holds(_file(home, name), bundled[name])}
    return _Plan(
        _manifest(version, wanted, deleted),
        installed=tuple(sorted(wanted - there)),
        updated=tuple(sorted(different)),
        removed=tuple(sorted(managed - set(bundled))),
    )


def _manifest(version: str, managed: set[str], retired: set[str]) -> Manifest:
    return Manifest(version=version, managed=sorted(managed), retired=sorted(retired))


class _Pass:
    """One pass over the files; nothing is changed, or all of it."""

    def __init__(self, home: Home, backups: Path) -> None:
        self._home, self._backups = home, backups
        self._done: list[str] = []

    def backup(self, name: str) -> Path:
        """Where the file that a preset had is kept."""
        return self._backups / f"{name}.md"

    def run(self, plan: _Plan, bundled: Mapping[str, bytes]) -> None:
        """Carry a plan out."""
        new, old = (*plan.installed, *plan.updated), (*plan.updated, *plan.removed)
        try:
            self._prepare(bundled, new, old)
            self._commit(plan, new)
        except BaseException as error:
            left = self._undo(set(old))
            if isinstance(error, OSError):
                raise FileError(self._home.agents, f"nothing was installed: {_said(error)}{left}") from error
            raise
        finally:
            self._sweep()

    def _prepare(self, bundled: Mapping[str, bytes], new: tuple[str, ...], old: tuple[str, ...]) -> None:
        """Copy what will be replaced or removed, and write what will take its place beside it."""
        for name in (*new, *old):
            path = _file(self._home, name)
            if path.is_dir() and not path.is_symlink():
                raise IsADirectoryError(0, "a folder has the name of a preset: move it away", str(path))
        for name in old:
            self._backups.mkdir(parents=True, exist_ok=True)
            shutil.copy2(_file(self._home, name), self.backup(name), follow_symlinks=False)
        for name in new:
            stage(self._staged(name), bundled[name])

    def _commit(self, plan: _Plan, new: tuple[str, ...]) -> None:
        for name in new:
            # Noted first: a rename that reports a failure may have happened.
            self._done.append(name)
            os.replace(self._staged(name), _file(self._home, name))
        for name in plan.removed:
            self._done.append(name)
            _file(self._home, name).unlink()
        # A manifest that outlived the files of its pass would take them for deleted by the user.
        sync_folder(self._home.agents)
        write_whole(self._home.manifest, plan.manifest.model_dump_json(indent=2).encode() + b"\n")

    def _undo(self, old: set[str]) -> str:
        """Bring back what was there, newest change first; what is to be said of it."""
        kept: list[str] = []
        for name in reversed(self._done):
            path = _file(self._home, name)
            try:
                if name in old:
                    self._restore(name, path)
                else:
                    path.unlink(missing_ok=True)
            except OSError as error:
                kept.append(f"{path} ({error.strerror or error})")
        if kept:
            return f"; not brought back: {', '.join(kept)}; what was there is in {self._backups}"
        shutil.rmtree(self._backups, ignore_errors=True)
        return ""

    def _restore(self, name: str, path: Path) -> None:
        staged = self._staged(name)
        staged.unlink(missing_ok=True)
        shutil.copy2(self.backup(name), staged, follow_symlinks=False)
        os.replace(staged, path)

    def _sweep(self) -> None:
        """Take away what was written beside its place, by a pass that was killed too."""
        with suppress(OSError):
            for path in self._home.agents.glob(".*.md.staged"):
                path.unlink()

    def _staged(self, name: str) -> Path:
        # No definition: those do not begin with a dot.
        return self._home.agents / f".{name}.md.staged"


def _said(error: OSError) -> str:
    about = error.filename2 or error.filename
    return f"{error.strerror or error}" + (f" ({about})" if about else "")


def _file(home: Home, name: str) -> Path:
    return home.agents / f"{name}.md"


def _is_there(path: Path) -> bool:
    """Whether anything has that name, a link that leads nowhere too. What cannot be looked at is not taken for gone."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise FileError(path, f"cannot be looked at: {error.strerror or error}") from error
    return True


def _holds(path: Path, data: bytes) -> bool:
    try:
        return path.is_file() and path.read_bytes() == data
    except OSError:
        return False
