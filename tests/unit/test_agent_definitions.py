"""Agent definitions: what a file may say (spec §17.21)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarry.core.subagents.definition import AgentDefinition
from tarry.subagents.files import FileError, read_text
from tarry.subagents.front_matter import parse_definition

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


@pytest.mark.parametrize("escape", ["\\UFFFFFFFF", "\\U00110000"])
def test_an_escape_that_is_no_character_is_told(escape: str) -> None:
    said = refused("name: scout", f'description: "{escape}"')

    assert said == '1: its front matter has an escape that is no character, as "\\UFFFFFFFF"'


def test_half_of_a_character_is_replaced_and_two_halves_are_one() -> None:
    assert parsed("name: scout", 'description: "\\ud800 \\ud83d\\ude00"').description == "\ufffd 😀"


def test_a_file_without_front_matter_or_its_end_is_refused() -> None:
    with pytest.raises(FileError, match=r"md:1: begins without front matter: the first line must be `---`"):
        parse_definition(PATH, "# Scout\n")
    with pytest.raises(FileError, match=r"md:1: its front matter has no end: a line `---` is missing"):
        parse_definition(PATH, "---\nname: a\n")


def test_instructions_must_be_there_and_fit_a_request() -> None:
    assert refused(*NAMED, prompt=" \n ") == "4: has no instructions: write them below the front matter"
    assert refused(*NAMED, prompt="ü" * 16_385) == "5: its instructions have 32770 bytes, 32768 are allowed"


@given(st.text(max_size=80), st.text(max_size=80))
def test_any_text_is_a_definition_or_is_refused_in_one_line(front: str, body: str) -> None:
    said = ""
    try:
        parsed("name: a", "description: b", front, prompt=body)
    except FileError as error:
        said = str(error)

    assert len(said.splitlines()) <= 1
