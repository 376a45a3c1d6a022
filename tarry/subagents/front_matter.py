"""An agent definition: Markdown with YAML front matter (spec §17.21).

    ---
    name: security-reviewer
    description: Review authentication and authorization changes
    tools: read, grep, find, ls, bash
    model: openai/gpt-5.4
    thinking: high
    ---

    Review the delegated change. …

Every value is a text as it stands there, so that `thinking: off` and `name: no` mean what they say.
"""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import get_args

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode

from tarry.core.agent import MAX_INSTRUCTIONS, ThinkingLevel
from tarry.core.subagents.ceilings import MUTATION, is_tool_name
from tarry.core.subagents.definition import AgentDefinition
from tarry.core.text import clean_text
from tarry.subagents.files import FileError, read_text

KEYS = ("name", "description", "tools", "model", "thinking")
LEVELS: tuple[ThinkingLevel, ...] = get_args(ThinkingLevel)
MAX_DESCRIPTION = 1_024
"""Characters: each is part of the schema of a tool, with every request."""
MAX_TOOLS = 256

_FENCE = "---"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def read_definition(path: Path) -> AgentDefinition:
    """The definition in a file.

    Raises:
        FileError: it is none; with the line.
        FileNotFoundError: nothing is there.
    """
    return parse_definition(path, read_text(path))


def parse_definition(path: Path, text: str) -> AgentDefinition:
    """The definition that a text is; `path` is for errors.

    Raises:
        FileError: it is none; with the line.
    """
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        raise FileError(path, f"begins without front matter: the first line must be `{_FENCE}`", 1)
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), None)
    if end is None:
        raise FileError(path, f"its front matter has no end: a line `{_FENCE}` is missing", 1)
    fields = _Fields(path, "\n".join(["", *lines[1:end]]))
    prompt = "\n".join(lines[end + 1 :]).strip()
    if not prompt:
        raise FileError(path, "has no instructions: write them below the front matter", end + 1)
    if (size := len(prompt.encode())) > MAX_INSTRUCTIONS:
        raise FileError(path, f"its instructions have {size} bytes, {MAX_INSTRUCTIONS} are allowed", end + 2)
    return AgentDefinition(
        name=fields.name(),
        description=fields.description(),
        prompt=prompt,
        tools=fields.tools(),
        model=fields.model(),
        thinking=fields.thinking(),
    )


def declared_name(path: Path) -> str:
    """The name that a file wants to define, as far as one can be read in a file that is no definition; or empty."""
    try:
        found = re.search(r"^name:[ \t]*[\"']?([A-Za-z0-9_-]+)", read_text(path), re.MULTILINE)
    except (FileError, FileNotFoundError):
        return ""
    return found[1] if found else ""


class _Fields:
    """The texts of front matter by key, with their lines."""

    def __init__(self, path: Path, text: str) -> None:
        self._path = path
        self._values: dict[str, tuple[str, int]] = {}
        for key, value in _pairs(path, text):
            line = key.start_mark.line + 1
            if not isinstance(key, ScalarNode) or key.value not in KEYS:
                raise FileError(path, _unknown(key), line)
            if key.value in self._values:
                raise FileError(path, f"has `{key.value}` twice", line)
            if not isinstance(value, ScalarNode):
                hint = " with commas: `tools: read, grep`" if key.value == "tools" else ""
                raise FileError(path, f"`{key.value}` must be one text{hint}", line)
            self._values[key.value] = (clean_text(value.value.strip()), line)

    def name(self) -> str:
        value, line = self._required("name")
        if _NAME.fullmatch(value) is None:
            raise FileError(self._path, f"name {value!r} must be 1 to 64 letters, digits, _ or -", line)
        return value

    def description(self) -> str:
        value, line = self._required("description")
        if len(value) > MAX_DESCRIPTION:
            text = f"its description has {len(value)} characters, {MAX_DESCRIPTION} are allowed"
            raise FileError(self._path, text, line)
        return " ".join(value.split())

    def tools(self) -> tuple[str, ...] | None:
        if "tools" not in self._values:
            return None
        value, line = self._values["tools"]
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        if names == ("none",):
            return ()
        for name in names:
            if (wrong := _wrong_tool(name)) is not None:
                raise FileError(self._path, f"tools: {wrong}", line)
        if len(names) > MAX_TOOLS:
            raise FileError(self._path, f"names {len(names)} tools, {MAX_TOOLS} are allowed", line)
        return names

    def model(self) -> str | None:
        if "model" not in self._values:
            return None
        value, line = self._values["model"]
        if not value or len(value) > 200 or len(value.split()) != 1:
            raise FileError(self._path, f"model {value!r} must be one name, such as openai/gpt-5.4", line)
        return value

    def thinking(self) -> ThinkingLevel | None:
        if "thinking" not in self._values:
            return None
        value, line = self._values["thinking"]
        for level in LEVELS:
            if value == level:
                return level
        raise FileError(self._path, f"thinking {value!r} must be one of {', '.join(LEVELS)}", line)

    def _required(self, key: str) -> tuple[str, int]:
        value, line = self._values.get(key, ("", 1))
        if not value:
            raise FileError(self._path, f"its front matter has no `{key}`", line)
        return value, line


def _pairs(path: Path, text: str) -> list[tuple[Node, Node]]:
    try:
        # This loader makes nothing but texts, lists and mappings, and nodes know their lines.
        node = yaml.compose(text, Loader=yaml.BaseLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        said = ", ".join(part for part in (error.context, error.problem) if part)
        raise FileError(path, f"its front matter is no YAML: {said}", mark.line + 1 if mark else 1) from None
    except yaml.reader.ReaderError as error:
        line = text[: error.position].count("\n") + 1
        raise FileError(path, "its front matter holds a control character", line) from None
    except RecursionError:
        raise FileError(path, "its front matter is nested too deeply", 1) from None
    except (ValueError, OverflowError):
        raise FileError(path, 'its front matter has an escape that is no character, as "\\UFFFFFFFF"', 1) from None
    if node is None:
        return []
    if not isinstance(node, MappingNode):
        raise FileError(path, "its front matter must be lines of `key: value`", node.start_mark.line + 1)
    pairs: list[tuple[Node, Node]] = node.value
    return pairs


def _unknown(key: Node) -> str:
    if not isinstance(key, ScalarNode):
        return f"a key must be one of {', '.join(KEYS)}"
    near = get_close_matches(key.value, KEYS, 1)
    return f"unknown key `{key.value}`: " + (f"did you mean `{near[0]}`?" if near else f"known are {', '.join(KEYS)}")


def _wrong_tool(name: str) -> str | None:
    """Why a name is none of a tool in a list, None when it may be one."""
    if not name:
        return "a name is missing; write `none` for no tools, or leave the line out for no ceiling"
    if name == "none":
        return "`none` stands alone"
    if name.startswith("$") and name != MUTATION:
        return f"unknown name {name}; the only one of its kind is {MUTATION}"
    if name != MUTATION and not is_tool_name(name):
        return f"{name!r} is no tool's name: 1 to 64 letters, digits, _ or -, with commas between them"
    return None
