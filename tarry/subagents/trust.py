"""Which projects this host trusts: their files are prompts and settings, written by whoever writes there (spec §17.22).

A list of folders in the config dir. One counts by its real path, itself alone and not what is below it.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from tarry.core.text import clean_text
from tarry.subagents.files import AGENTS, CONFIG, PROJECT, FileError, Home, locked, read_text, write_whole


class TrustedProjects(BaseModel):
    """The file."""

    model_config = ConfigDict(extra="forbid", strict=True)

    format: Literal[1] = 1
    projects: list[str] = []


def trusted(home: Home) -> frozenset[Path]:
    """The folders that are trusted; none without the file.

    Raises:
        FileError: the file is damaged, and nothing is trusted.
    """
    try:
        text = read_text(home.trusted)
    except FileNotFoundError:
        return frozenset()
    try:
        return frozenset(Path(one) for one in TrustedProjects.model_validate_json(text).projects)
    except ValidationError:
        text = "is damaged, and no project is trusted: remove it, and trust them again with `tarry agents trust`"
        raise FileError(home.trusted, text) from None


def trust(home: Home, project: Path) -> bool:
    """Trust a project from now on; whether it was not before.

    Raises:
        FileError: the list cannot be read or written, or the project's path is no text that could stand in it.
    """
    place = project.resolve()
    if clean_text(str(place)) != str(place):
        raise FileError(place, "has a name that is no UTF-8, and cannot be trusted: rename it")
    with locked(home):
        before = trusted(home)
        return _write(home, before, before | {place})


def untrust(home: Home, project: Path) -> bool:
    """Trust a project no more, also one that is gone; whether it was before.

    Raises:
        FileError: the list cannot be read or written.
    """
    with locked(home):
        before = trusted(home)
        return _write(home, before, before - {project.resolve()})


def _write(home: Home, before: frozenset[Path], after: frozenset[Path]) -> bool:
    if after != before:
        file = TrustedProjects(projects=sorted(str(one) for one in after))
        try:
            write_whole(home.trusted, file.model_dump_json(indent=2).encode() + b"\n")
        except OSError as error:
            raise FileError(home.trusted, f"cannot be written: {error.strerror or error}") from error
    return after != before


def nearest(cwd: Path, name: str, among: Collection[Path]) -> Path | None:
    """`.tarry/<name>` of the nearest of these projects that has it, from `cwd` upwards."""
    places = _upwards(cwd)
    return next((place / PROJECT / name for place in places if place in among and _has(place, name)), None)


def nearest_project(cwd: Path) -> Path | None:
    """The nearest folder, from `cwd` upwards, that has definitions or settings, trusted or not."""
    return next((place for place in _upwards(cwd) if _has(place, AGENTS) or _has(place, CONFIG)), None)


def _upwards(cwd: Path) -> tuple[Path, ...]:
    try:
        place = cwd.resolve()
    except (OSError, RuntimeError, ValueError):
        # No path at all, or links that lead in a circle: nothing is above it.
        return ()
    return (place, *place.parents)


def _has(place: Path, name: str) -> bool:
    try:
        return (place / PROJECT / name).exists()
    except PermissionError:
        # Whoever reads it is told why that cannot be done.
        return True
    except OSError:
        return False
