"""Agent definitions: what a file may say, which files count, what a snapshot has of them (spec §17.21, §17.22)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tarry.core.subagents.definition import AgentDefinition, Snapshot, SubagentSettings
from tarry.settings import Settings
from tarry.subagents.discovery import load_catalogue, load_snapshot
from tarry.subagents.files import FileError, Home, config_dir, read_text
from tarry.subagents.front_matter import parse_definition
from tarry.subagents.trust import trust, trusted, untrust

PATH = Path("/agents/scout.md")


def parsed(*lines: str, prompt: str = "Look around.") -> AgentDefinition:
    return parse_definition(PATH, "\n".join(["---", *lines, "---", "", prompt]))


def refused(*lines: str, prompt: str = "Look around.") -> str:
    with pytest.raises(FileError) as error:
        parsed(*lines, prompt=prompt)
    return str(error.value).removeprefix(f"{PATH}:")


NAMED = ("name: scout", "description: Looks around")


def test_a_definition_has_all_that_its_front_matter_says() -> None:
    definition = parsed(
        "name: security-reviewer",
        "description: Review authentication changes",
        "tools: read, grep, find, ls, bash",
        "model: openai/gpt-5.4",
        "thinking: high",
        prompt="Review the delegated change.\n\n---\n\nReport exact paths.\n",
    )

    assert definition == AgentDefinition(
        name="security-reviewer",
        description="Review authentication changes",
        prompt="Review the delegated change.\n\n---\n\nReport exact paths.",
        tools=("read", "grep", "find", "ls", "bash"),
        model="openai/gpt-5.4",
        thinking="high",
    )


def test_name_and_description_are_enough() -> None:
    assert parsed(*NAMED) == AgentDefinition(name="scout", description="Looks around", prompt="Look around.")


@pytest.mark.parametrize(
    ("line", "tools"),
    [
        ("tools: none", ()),
        ("tools: $mutation, read", ("$mutation", "read")),
        ("tools: read , read,bash", ("read", "bash")),
    ],
)
def test_tools_are_a_ceiling_and_none_is_an_empty_one(line: str, tools: tuple[str, ...]) -> None:
    assert parsed(*NAMED, line).tools == tools


def test_values_are_texts_as_they_stand_there() -> None:
    definition = parsed("name: no", "description: 12", "thinking: off", "model: 5.4")

    assert (definition.name, definition.description, definition.thinking, definition.model) == (
        "no",
        "12",
        "off",
        "5.4",
    )


def test_a_description_over_several_lines_becomes_one() -> None:
    assert parsed("name: a", "description: >", "  Looks", "  around").description == "Looks around"


def test_byte_order_mark_and_other_line_ends_do_not_count(tmp_path: Path) -> None:
    file = tmp_path / "a.md"
    file.write_bytes(b"\xef\xbb\xbf---\r\nname: a\r\ndescription: b\r\n---\r\nLook.\r\nFind.\r\n")

    assert parse_definition(file, read_text(file)).prompt == "Look.\nFind."


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (("description: x",), "1: its front matter has no `name`"),
        (("name:", "description: x"), "2: its front matter has no `name`"),
        (("name: a",), "1: its front matter has no `description`"),
        (("name: a b", "description: x"), "2: name 'a b' must be 1 to 64 letters, digits, _ or -"),
        (("name: ../a", "description: x"), "2: name '../a' must be 1 to 64 letters, digits, _ or -"),
        ((f"name: {'a' * 65}", "description: x"), f"2: name '{'a' * 65}' must be 1 to 64 letters, digits, _ or -"),
        ((*NAMED, "tool: read"), "4: unknown key `tool`: did you mean `tools`?"),
        ((*NAMED, "colour: red"), "4: unknown key `colour`: known are name, description, tools, model, thinking"),
        ((*NAMED, "name: b"), "4: has `name` twice"),
        ((*NAMED, "tools: [read, grep]"), "4: `tools` must be one text with commas: `tools: read, grep`"),
        ((*NAMED, "model: {a: b}"), "4: `model` must be one text"),
        ((*NAMED, "[a, b]: c"), "4: a key must be one of name, description, tools, model, thinking"),
        ((*NAMED, "tools: none, read"), "4: tools: `none` stands alone"),
        ((*NAMED, "tools: $shell"), "4: tools: unknown name $shell; the only one of its kind is $mutation"),
        ((*NAMED, "thinking: hard"), "4: thinking 'hard' must be one of off, minimal, low, medium, high, xhigh, max"),
        ((*NAMED, "model: a b"), "4: model 'a b' must be one name, such as openai/gpt-5.4"),
        ((*NAMED, "model:"), "4: model '' must be one name, such as openai/gpt-5.4"),
        (("name: a", f"description: {'x' * 1025}"), "3: its description has 1025 characters, 1024 are allowed"),
        (("- name", "- a"), "2: its front matter must be lines of `key: value`"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(lines: tuple[str, ...], said: str) -> None:
    assert refused(*lines) == said


def test_empty_tools_are_no_ceiling_by_mistake_and_are_refused() -> None:
    assert refused(*NAMED, "tools:") == (
        "4: tools: a name is missing; write `none` for no tools, or leave the line out for no ceiling"
    )


def test_broken_yaml_is_told_with_its_line() -> None:
    said = refused("name: scout", "description: looks: around")

    assert said.startswith("3: its front matter is no YAML: mapping values are not allowed")


def test_a_control_character_in_front_matter_is_told_with_its_line() -> None:
    assert refused(*NAMED, "model: a\x07b") == "4: its front matter holds a control character"


def test_a_file_without_front_matter_or_its_end_is_refused() -> None:
    with pytest.raises(FileError, match=r"md:1: begins without front matter: the first line must be `---`"):
        parse_definition(PATH, "# Scout\n")
    with pytest.raises(FileError, match=r"md:1: its front matter has no end: a line `---` is missing"):
        parse_definition(PATH, "---\nname: a\n")


def test_instructions_must_be_there_and_fit_a_request() -> None:
    assert refused(*NAMED, prompt=" \n ") == "4: has no instructions: write them below the front matter"
    assert refused(*NAMED, prompt="ü" * 16_385) == "5: its instructions have 32770 bytes, 32768 are allowed"


# Which files count.


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


@pytest.mark.parametrize("cwd", ["no/such/folder", "a\0b", "circle"])
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
