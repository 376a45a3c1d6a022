"""`tarry agents init`, `definitions`, `trust` and `untrust`: the files about subagents on this host.

None of them needs a server.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from tarry.cli.exits import ExitCode, Problem
from tarry.cli.output import JsonOption, Output
from tarry.cli.render import plain
from tarry.settings import load_settings
from tarry.subagents.discovery import Catalogue, Found, load_catalogue
from tarry.subagents.files import AGENTS, CONFIG, PROJECT, Home, config_dir
from tarry.subagents.initialise import Initialised, initialise
from tarry.subagents.manifest import package_version, presets
from tarry.subagents.trust import nearest_project, trusted
from tarry.subagents.trust import trust as trust_project
from tarry.subagents.trust import untrust as untrust_project

Folder = Annotated[Path | None, typer.Argument(help="A folder of the project, or below it.  [default: this folder]")]


def init(as_json: JsonOption = False) -> int:
    """Install the agents that come with Tarry, on this host, as files that are yours to edit.

    Once for each version: another time it changes nothing. With a new version a file that differs is backed up and
    replaced, one that you deleted stays deleted, and one that is no preset any more is backed up and removed. Workers
    install nothing by themselves.
    """
    output, home = Output(as_json=as_json), _home()
    done = initialise(home, presets(), version=package_version(), now=datetime.now(UTC))
    if as_json:
        output.json(
            {
                "version": done.version,
                "previous": done.previous,
                "folder": str(home.agents),
                "installed": done.installed,
                "updated": done.updated,
                "removed": done.removed,
                "deleted": done.deleted,
                "backups": {name: str(path) for name, path in done.backups.items()},
            }
        )
    else:
        output.text("\n".join(_report(home, done)))
    return ExitCode.DONE


def _report(home: Home, done: Initialised) -> list[str]:
    lines = [
        f"{said}: {', '.join(names)}"
        for said, names in (
            ("installed", done.installed),
            ("updated", done.updated),
            ("removed, no preset any more", done.removed),
        )
        if names
    ]
    lines += [f"backup of {name}: {path}" for name, path in done.backups.items()]
    if not lines:
        lines = [f"nothing to do: the presets of tarry {done.version} were installed before"]
    if done.deleted:
        lines.append(f"deleted by you (not restored): {', '.join(done.deleted)}")
    return [f"{home.agents}", *lines]


def definitions(
    folder: Annotated[Path | None, typer.Argument(help="Where an agent works.  [default: this folder]")] = None,
    as_json: JsonOption = False,
) -> int:
    """Show which agents there are to delegate to in a folder, by which settings, and what of the files cannot be used.

    Ends with 2 when something cannot be used. A conversation keeps what it began with until it is told to reload.
    """
    output, home, cwd = Output(as_json=as_json), _home(), folder or Path.cwd()
    catalogue = load_catalogue(cwd, home.root)
    if as_json:
        output.json(_facts(catalogue))
    else:
        _show(output, home, catalogue)
    return ExitCode.PUT_RIGHT if catalogue.problems else ExitCode.DONE


def _facts(catalogue: Catalogue) -> dict[str, object]:
    return {
        "definitions": [_row(one) for one in catalogue.found],
        "settings": catalogue.config.model_dump(mode="json", by_alias=True, exclude={"schema_"}),
        "config_files": [str(path) for path in catalogue.config_files],
        "problems": catalogue.problems,
        "notes": catalogue.notes,
    }


def _row(one: Found) -> dict[str, object]:
    facts = one.definition.model_dump(mode="json", exclude={"prompt"})
    return {**facts, "scope": one.scope, "file": str(one.path)}


def _show(output: Output, home: Home, catalogue: Catalogue) -> None:
    if catalogue.found:
        table = Table("agent", "description", "tools", "model", "thinking", "file", box=None)
        for one in catalogue.found:
            it = one.definition
            tools = "no ceiling" if it.tools is None else ", ".join(it.tools) or "none"
            row = (it.name, it.description, tools, it.model or "", it.thinking or "", str(one.path))
            table.add_row(*(plain(cell) for cell in row))
        output.table(table)
    else:
        output.text(f"no agents to delegate to: `tarry agents init`, or write one into {home.agents}")
    settings = catalogue.config.model_dump(mode="json", by_alias=True, exclude={"schema_"})
    output.text("settings: " + ", ".join(f"{key} {json.dumps(value)}" for key, value in settings.items()))
    for text in catalogue.problems:
        output.complaint(plain(text))
    for text in catalogue.notes:
        output.remark(plain(text))


def trust(folder: Folder = None, as_json: JsonOption = False) -> int:
    """Let the agents and settings of a project count on this host: what its `.tarry` holds now and will hold.

    They are prompts and settings from whoever can write there. Agents of it count where `agentScope` is `project` or
    `both`. The project is the nearest folder upwards that has any.
    """
    output, where = Output(as_json=as_json), folder or Path.cwd()
    project = nearest_project(where)
    if project is None:
        text = (
            f"there is no {PROJECT}/{AGENTS} and no {PROJECT}/{CONFIG} in {where} or above it: make one of them first"
        )
        raise Problem(ExitCode.PUT_RIGHT, "no_project", text)
    is_new = trust_project(_home(), project)
    if as_json:
        output.json({"project": str(project), "was_trusted": not is_new})
    else:
        output.text(f"{project} is trusted" + ("" if is_new else ", as it was before"))
    return ExitCode.DONE


def untrust(folder: Folder = None, as_json: JsonOption = False) -> int:
    """Let the agents and settings of a project count no more, also of one that is gone."""
    output, home = Output(as_json=as_json), _home()
    where = (folder or Path.cwd()).resolve()
    known = trusted(home)
    project = next((place for place in (where, *where.parents) if place in known), where)
    was_trusted = untrust_project(home, project)
    if as_json:
        output.json({"project": str(project), "was_trusted": was_trusted})
    else:
        output.text(f"{project} " + ("is not trusted any more" if was_trusted else "was not trusted"))
    return ExitCode.DONE


def _home() -> Home:
    return Home(config_dir(load_settings()))
