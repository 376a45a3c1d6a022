"""What agents there are on this host, and by which settings: two folders and two files (spec §17.22).

Only the user's files and those of a trusted project count; the presets in the package never do.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tarry.core.subagents.definition import AgentDefinition, Snapshot
from tarry.core.text import clean_text
from tarry.subagents import manifest
from tarry.subagents.config import SubagentConfig, notes, read_config
from tarry.subagents.files import AGENTS, CONFIG, FileError, Home
from tarry.subagents.front_matter import declared_name, read_definition
from tarry.subagents.trust import nearest, nearest_project, trusted

MAX_DEFINITIONS = 100
MAX_CATALOGUE = 512 * 1024
"""Bytes of all definitions together: each conversation keeps its own copy."""

MAX_PROBLEMS, MAX_PROBLEM = 20, 500
"""Of a snapshot: lines, and characters of one."""

Scope = Literal["user", "project"]


@dataclass(frozen=True)
class Found:
    """A definition, and where it is from."""

    definition: AgentDefinition
    scope: Scope
    path: Path


@dataclass(frozen=True)
class Catalogue:
    """What the files come to.

    `problems` keep something from being used, `notes` are for a person to know, `config_files` are those that counted.
    """

    found: tuple[Found, ...] = ()
    config: SubagentConfig = field(default_factory=SubagentConfig)
    config_files: tuple[Path, ...] = ()
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def snapshot(self) -> Snapshot:
        """What a tree keeps of it."""
        definitions = tuple(one.definition for one in self.found)
        problems = tuple(text[:MAX_PROBLEM] for text in self.problems[:MAX_PROBLEMS])
        if (more := len(self.problems) - len(problems)) > 0:
            problems = (*problems, f"and {more} more: `tarry agents definitions`")
        return Snapshot(definitions=definitions, settings=self.config.settings(), problems=problems)


def load_snapshot(cwd: Path | None, config_dir: Path) -> Snapshot:
    """The catalogue and the settings for work in `cwd`; without one those of the user.

    Never raises for what the files hold: `Snapshot.problems` says what could not be used.
    """
    return load_catalogue(cwd, config_dir).snapshot


def load_catalogue(cwd: Path | None, config_dir: Path) -> Catalogue:
    """The same with where everything is from. Agents are in the order of their names."""
    return _Reading(cwd, Home(config_dir)).catalogue()


class _Reading:
    """One look at the files; what is wrong with one of them is noted, and the rest is read."""

    def __init__(self, cwd: Path | None, home: Home) -> None:
        self._cwd, self._home = cwd, home
        self._problems: list[str] = []
        self._notes: list[str] = []

    def catalogue(self) -> Catalogue:
        self._notes += manifest.notes(self._home)
        projects = self._trusted()
        files: list[Path] = []
        config = self._config((self._home.config, self._project(CONFIG, projects)), files)
        if config is None:
            # By other settings than were meant an agent might do what it must not.
            return Catalogue(config_files=tuple(files), problems=tuple(self._problems), notes=tuple(self._notes))
        self._notes += notes(config)
        found: dict[str, Found] = {}
        if config.agent_scope != "project":
            found |= self._definitions(self._home.agents, "user", found)
        if config.agent_scope != "user" and (folder := self._project(AGENTS, projects)) is not None:
            found |= self._definitions(folder, "project", found)
        self._note_untrusted(projects)
        kept = self._bounded([found[name] for name in sorted(found)])
        return Catalogue(kept, config, tuple(files), tuple(self._problems), tuple(self._notes))

    def _trusted(self) -> frozenset[Path]:
        try:
            return trusted(self._home)
        except FileError as error:
            self._problems.append(str(error))
            return frozenset()

    def _project(self, name: str, projects: frozenset[Path]) -> Path | None:
        return None if self._cwd is None else nearest(self._cwd, name, projects)

    def _config(self, places: tuple[Path | None, ...], files: list[Path]) -> SubagentConfig | None:
        """The settings of the `places`, each over the one before; `files`: those of them that are there."""
        config = SubagentConfig()
        for path in (place for place in places if place is not None):
            try:
                config = read_config(path).over(config)
            except FileNotFoundError:
                continue
            except FileError as error:
                self._problems.append(f"{error}; until then there are no agents to delegate to")
                return None
            files.append(path)
        return config

    def _definitions(self, folder: Path, scope: Scope, below: dict[str, Found]) -> dict[str, Found]:
        """Those of a folder by name. One that cannot be used hides what it was to replace, and never reveals it."""
        found: dict[str, Found] = {}
        twice: set[str] = set()
        for path in self._files(folder):
            try:
                definition = read_definition(path)
            except (FileError, FileNotFoundError) as error:
                self._problems.append(str(error))
                for name in (path.stem, declared_name(path)):
                    below.pop(name, None)
                continue
            if (other := found.get(definition.name)) is not None:
                text = f"the name {definition.name} is that of {other.path} too, and neither counts: rename one"
                self._problems.append(str(FileError(path, text)))
                twice.add(definition.name)
            found[definition.name] = Found(definition, scope, path)
        for name in twice:
            del found[name]
            below.pop(name, None)
        return found

    def _files(self, folder: Path) -> list[Path]:
        try:
            return sorted(path for path in folder.iterdir() if path.suffix == ".md" and not path.name.startswith("."))
        except FileNotFoundError:
            return []
        except OSError as error:
            self._problems.append(str(FileError(folder, f"cannot be read: {error.strerror or error}")))
            return []

    def _note_untrusted(self, projects: frozenset[Path]) -> None:
        project = None if self._cwd is None else nearest_project(self._cwd)
        if project is not None and project not in projects:
            text = f"{project} is not trusted, its agents and settings do not count: `tarry agents trust`"
            self._notes.append(clean_text(text))

    def _bounded(self, found: list[Found]) -> tuple[Found, ...]:
        size = 0
        for number, one in enumerate(found):
            size += len(one.definition.model_dump_json().encode())
            if number == MAX_DEFINITIONS or size > MAX_CATALOGUE:
                allowed = f"{MAX_DEFINITIONS} agents and {MAX_CATALOGUE} bytes in all"
                text = f"more than {allowed}; it and those after it do not count"
                self._problems.append(str(FileError(one.path, text)))
                return tuple(found[:number])
        return tuple(found)
