"""Which files count as definitions and settings, and what a snapshot has of them (spec §17.22, §17.26)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarry.core.subagents.definition import Snapshot, SubagentSettings
from tarry.settings import Settings
from tarry.subagents.discovery import load_catalogue, load_snapshot
from tarry.subagents.files import FileError, Home, config_dir
from tarry.subagents.trust import trust, trusted, untrust


def define(folder: Path, name: str, prompt: str = "Work.", *more: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{name}.md"
    file.write_text("\n".join(["---", f"name: {name}", f"description: {name}", *more, "---", prompt, ""]))
    return file


class Host:
    """A config dir and a project with a folder deep in it."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root / "config")
        self.project = root / "project"
        self.cwd = self.project / "deep" / "down"
        self.cwd.mkdir(parents=True)

    def configure(self, text: str, *, project: bool = False) -> None:
        file = self.project / ".tarry" / "subagent.json" if project else self.home.config
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    @property
    def project_agents(self) -> Path:
        return self.project / ".tarry" / "agents"

    def snapshot(self) -> Snapshot:
        return load_snapshot(self.cwd, self.home.root)

    def prompts(self) -> dict[str, str]:
        return {one.name: one.prompt for one in self.snapshot().definitions}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def both(host: Host) -> Host:
    """Agents of the user (scout, worker) and of a trusted project (scout, tester)."""
    define(host.home.agents, "scout", "user's")
    define(host.home.agents, "worker", "user's")
    define(host.project_agents, "scout", "project's")
    define(host.project_agents, "tester", "project's")
    trust(host.home, host.project)
    return host


def test_without_files_there_are_no_agents_and_nothing_is_made(host: Host) -> None:
    assert host.snapshot() == Snapshot(settings=SubagentSettings())
    assert not host.home.root.exists()


def test_only_the_users_agents_count_by_default(both: Host) -> None:
    assert both.prompts() == {"scout": "user's", "worker": "user's"}


def test_scope_project_selects_the_projects_agents_alone(both: Host) -> None:
    both.configure('{"agentScope": "project"}')

    assert both.prompts() == {"scout": "project's", "tester": "project's"}


def test_scope_both_lets_the_projects_agents_replace_the_users_of_the_same_name(both: Host) -> None:
    both.configure('{"agentScope": "both"}')

    assert both.prompts() == {"scout": "project's", "tester": "project's", "worker": "user's"}
    assert [one.name for one in both.snapshot().definitions] == ["scout", "tester", "worker"]


def test_a_project_that_is_not_trusted_counts_for_nothing(both: Host) -> None:
    both.configure('{"agentScope": "both"}')
    both.configure('{"maxDepth": 9}', project=True)

    untrust(both.home, both.project)

    assert both.prompts() == {"scout": "user's", "worker": "user's"}
    assert both.snapshot().settings.max_depth == 3
    assert load_catalogue(both.cwd, both.home.root).notes[-1] == (
        f"{both.project} is not trusted, its agents and settings do not count: `tarry agents trust`"
    )


def test_the_nearest_trusted_project_upwards_counts(both: Host) -> None:
    both.configure('{"agentScope": "project"}')
    nearer = both.cwd.parent
    define(nearer / ".tarry" / "agents", "near", "nearer")

    before = both.prompts()
    trust(both.home, nearer)

    assert set(before) == {"scout", "tester"}
    assert both.prompts() == {"near": "nearer"}


def test_trust_is_of_one_folder_and_not_of_those_below_it(both: Host) -> None:
    both.configure('{"agentScope": "project"}')
    below = both.cwd / ".tarry" / "agents"
    define(below, "injected", "not trusted")

    assert "injected" not in both.prompts()


def test_a_link_to_a_project_leads_to_the_trust_of_what_it_is(both: Host, tmp_path: Path) -> None:
    both.configure('{"agentScope": "project"}')
    link = tmp_path / "link"
    link.symlink_to(both.project)

    assert [one.name for one in load_snapshot(link / "deep", both.home.root).definitions] == ["scout", "tester"]


def test_trust_outlives_the_process_and_is_taken_back(host: Host) -> None:
    assert trust(host.home, host.project) is True
    assert trust(host.home, host.project) is False
    assert trusted(host.home) == {host.project}
    assert untrust(host.home, host.project) is True
    assert untrust(host.home, host.project) is False
    assert trusted(host.home) == frozenset()


def test_a_project_whose_name_is_no_utf_8_cannot_be_trusted_and_the_list_stays(both: Host) -> None:
    nameless = Path(os.fsdecode(os.fsencode(both.project) + b"\xff"))
    before = both.home.trusted.read_bytes()

    with pytest.raises(FileError, match=r"has a name that is no UTF-8, and cannot be trusted: rename it$") as refused:
        trust(both.home, nameless)

    str(refused.value).encode()
    assert both.home.trusted.read_bytes() == before
    assert untrust(both.home, nameless) is False


def test_a_damaged_list_of_trusted_projects_trusts_none_and_is_not_overwritten(both: Host) -> None:
    both.configure('{"agentScope": "both"}')
    both.home.trusted.write_text("[]")

    (problem,) = both.snapshot().problems
    assert both.prompts() == {"scout": "user's", "worker": "user's"}
    assert problem.startswith(f"{both.home.trusted}: is damaged, and no project is trusted")
    with pytest.raises(FileError):
        trust(both.home, both.project)
    assert both.home.trusted.read_text() == "[]"


def test_without_a_folder_only_the_users_files_count(both: Host) -> None:
    both.configure('{"agentScope": "both"}')

    assert [one.name for one in load_snapshot(None, both.home.root).definitions] == ["scout", "worker"]


@pytest.mark.parametrize("cwd", ["no/such/folder", "a\0b", "circle", "x" * 5_000])
def test_any_folder_that_a_conversation_may_have_chosen_is_taken(both: Host, cwd: str) -> None:
    (both.project / "circle").symlink_to("circle")

    assert len(load_snapshot(both.project / cwd, both.home.root).definitions) == 2


def test_a_definition_that_cannot_be_used_is_told_and_the_others_count(host: Host) -> None:
    define(host.home.agents, "good")
    bad = define(host.home.agents, "bad", "Work.", "thinking: hard")

    snapshot = host.snapshot()

    assert [one.name for one in snapshot.definitions] == ["good"]
    assert [problem.startswith(f"{bad}:4: thinking 'hard'") for problem in snapshot.problems] == [True]


@pytest.mark.parametrize("file", ["scout", "other"])
def test_a_broken_definition_of_a_project_does_not_reveal_the_users(both: Host, file: str) -> None:
    both.configure('{"agentScope": "both"}')
    (both.project_agents / "scout.md").unlink()
    define(both.project_agents, "scout", "Work.", "tools:").rename(both.project_agents / f"{file}.md")

    assert set(both.prompts()) == {"tester", "worker"}


def test_what_is_told_of_files_is_unicode_whatever_they_hold_and_are_called(host: Host) -> None:
    define(host.home.agents, "scout")
    (host.home.agents / os.fsdecode(b"\xff.md")).write_text("no definition")
    (host.home.agents / "key.md").write_text('---\n"\\ud800": x\n---\nWork.')
    found = host.snapshot()
    host.configure('{"agentScope": "\\ud800"}')
    unsettled = host.snapshot()

    assert [one.name for one in found.definitions] == ["scout"]
    assert len(found.problems) == 2
    assert [Snapshot.model_validate_json(one.model_dump_json()) for one in (found, unsettled)] == [found, unsettled]


def test_two_files_of_one_scope_with_one_name_both_do_not_count(both: Host) -> None:
    define(both.home.agents, "scout", "other").rename(both.home.agents / "copy.md")
    define(both.home.agents, "scout")

    assert set(both.prompts()) == {"worker"}
    (problem,) = both.snapshot().problems
    assert problem.startswith(
        f"{both.home.agents / 'scout.md'}: the name scout is that of {both.home.agents / 'copy.md'}"
    )


def test_hidden_files_other_endings_and_folders_below_are_no_definitions(host: Host) -> None:
    define(host.home.agents, "scout").rename(host.home.agents / ".scout.md")
    define(host.home.agents, "note").rename(host.home.agents / "note.txt")
    define(host.home.agents / "more", "deeper")

    assert host.snapshot() == Snapshot()


def test_a_link_to_a_definition_is_one_and_a_dangling_one_is_told(host: Host, tmp_path: Path) -> None:
    host.home.agents.mkdir(parents=True)
    (host.home.agents / "a.md").symlink_to(define(tmp_path / "dotfiles", "scout"))
    (host.home.agents / "b.md").symlink_to("nowhere.md")

    snapshot = host.snapshot()

    assert [one.name for one in snapshot.definitions] == ["scout"]
    assert snapshot.problems == (f"{host.home.agents / 'b.md'}: is a link to nowhere.md, where nothing is",)


def test_what_is_no_file_is_told_and_never_waited_for(host: Host) -> None:
    host.home.agents.mkdir(parents=True)
    os.mkfifo(host.home.agents / "pipe.md")
    (host.home.agents / "folder.md").mkdir()
    (host.home.agents / "large.md").write_bytes(b"x" * 200_000)
    (host.home.agents / "latin.md").write_bytes(b"---\nname: caf\xe9\n---\n")

    texts = [problem.removeprefix(f"{host.home.agents}/") for problem in host.snapshot().problems]

    assert texts == [
        "folder.md: is no regular file",
        "large.md: is larger than the 131072 bytes that are read",
        "latin.md:2: is no UTF-8 text: save it as UTF-8",
        "pipe.md: is no regular file",
    ]


def test_a_catalogue_that_is_too_large_is_cut_and_told(host: Host) -> None:
    for number in range(101):
        define(host.home.agents, f"agent-{number:03}")

    snapshot = host.snapshot()

    assert len(snapshot.definitions) == 100
    assert snapshot.problems == (
        f"{host.home.agents / 'agent-100.md'}: more than 100 agents and 524288 bytes in all; it and those after it do "
        "not count",
    )


def test_a_snapshot_has_a_bounded_number_of_problems(host: Host) -> None:
    host.home.agents.mkdir(parents=True)
    for number in range(30):
        (host.home.agents / f"{number}.md").write_text("# no front matter")

    problems = host.snapshot().problems

    assert (len(problems), problems[-1]) == (21, "and 10 more: `tarry agents definitions`")


def test_settings_that_cannot_be_used_leave_no_agent_to_delegate_to(both: Host) -> None:
    both.configure('{"maxDepth": "three"}')

    snapshot = both.snapshot()

    assert snapshot.definitions == ()
    assert snapshot.problems == (
        f'{both.home.config}:1: `maxDepth` is "three": give a whole number from 0 to 32; until then there '
        "are no agents to delegate to",
    )


def test_the_config_dir_is_the_users_unless_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ana")
    monkeypatch.delenv("TARRY_CONFIG_DIR", raising=False)

    assert config_dir(Settings()) == Path("/home/ana/.config/tarry")
    assert config_dir(Settings(config_dir="/srv/agents")) == Path("/srv/agents")
