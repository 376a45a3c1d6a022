"""`tarry agents init`, `definitions`, `trust` and `untrust`: files of one host, and no server (docs/cli.md)."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.command import Command, Done


async def run(tmp_path: Path, *arguments: str) -> Done:
    command = Command(tmp_path, {**os.environ, "TARRY_CONFIG_DIR": str(tmp_path / "config")})
    return await command.run("agents", *arguments)


async def test_the_command_installs_reports_and_shows(tmp_path: Path) -> None:
    agents = tmp_path / "config" / "agents"
    agents.mkdir(parents=True)
    (agents / "scout.md").write_text("mine")

    first = (await run(tmp_path, "init", "--json")).json
    (agents / "planner.md").unlink()
    second = await run(tmp_path, "init")
    shown = (await run(tmp_path, "definitions", "--json")).json

    assert (first["installed"], first["updated"], first["previous"]) == (
        ["planner", "reviewer", "worker"],
        ["scout"],
        None,
    )
    (backup,) = (tmp_path / "config" / ".subagents" / "backups").glob("*/scout.md")
    assert (first["backups"], backup.read_text()) == ({"scout": str(backup)}, "mine")
    assert second.out.splitlines() == [
        str(agents),
        f"nothing to do: the presets of tarry {first['version']} were installed before",
        "deleted by you (not restored): planner",
    ]
    assert [one["name"] for one in shown["definitions"]] == ["reviewer", "scout", "worker"]


async def test_the_command_says_in_one_line_that_the_manifest_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "config" / ".subagents").mkdir(parents=True)
    (tmp_path / "config" / ".subagents" / "agents-manifest.json").write_text("{")

    done = await run(tmp_path, "init")

    assert (done.code, len(done.err.splitlines())) == (2, 1)
    assert "is damaged (copied to " in done.err


async def test_the_commands_trust_and_untrust_the_nearest_project(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".tarry" / "agents").mkdir(parents=True)
    (project / "src").mkdir()

    src = str(project / "src")
    answers = [(await run(tmp_path, verb, src, "--json")).json for verb in ("trust", "trust", "untrust")]
    nothing = await run(tmp_path, "trust", "--json")

    assert answers == [
        {"project": str(project), "was_trusted": False},
        {"project": str(project), "was_trusted": True},
        {"project": str(project), "was_trusted": True},
    ]
    assert (nothing.code, nothing.json["error"]["code"]) == (2, "no_project")


async def test_definitions_that_cannot_be_used_are_told_and_the_command_ends_with_2(tmp_path: Path) -> None:
    agents = tmp_path / "config" / "agents"
    agents.mkdir(parents=True)
    (agents / "scout.md").write_text("# Scout")

    done = await run(tmp_path, "definitions")

    assert done.code == 2
    assert done.err == f"tarry: {agents / 'scout.md'}:1: begins without front matter: the first line must be `---`\n"
