"""`subagent.json`: how a tree of agents works, of the user and of a trusted project (spec §17.23).

`python -m tarry.subagents.config` prints its JSON Schema, which is docs/subagent.schema.json.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from tarry.core.subagents.definition import RuntimeMode, SubagentSettings
from tarry.subagents.files import FileError, read_text

AgentScope = Literal["user", "project", "both"]

RETIRED = {
    "enableRunInBackground": 'write "runtimeMode": "foreground" for false, "runtimeMode": "background" for true',
    "defaultBackground": "nothing takes its place, background children can always be continued: take it out",
    "backgroundProtocol": "nothing takes its place, the durable mailbox is the only protocol: take it out",
    "syncBundledAgents": "nothing takes its place, presets are installed by `tarry agents init` alone: take it out",
    "reportDelivery": "nothing takes its place, a report never starts a turn of the parent: take it out",
}
"""Keys of earlier times, and what to do instead."""

MAX_OUTPUT = 262_144
"""Bytes: what one reading of updates may deliver in all."""


def _never(value: bool) -> bool:
    if value:
        raise ValueError("there is no adapter")
    return value


class SubagentConfig(BaseModel):
    """Settings of subagents for Tarry. What a file leaves out is as the other one says, or by default."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        frozen=True,
        alias_generator=to_camel,
        title="subagent.json",
        populate_by_name=False,
    )

    schema_: str = Field(default="", alias="$schema", description="Where this schema is; for editors.")
    agent_scope: AgentScope = Field(
        default="user",
        description="Which definitions count: the user's, the trusted project's, or both, where those of the project "
        "take the place of the user's of the same name.",
    )
    max_depth: int = Field(default=3, ge=0, le=32, description="Greatest depth of delegation; the root is at depth 0.")
    runtime_mode: RuntimeMode = Field(
        default="background",
        description="background: children go on by themselves and have tools for it; foreground: every delegation "
        "waits for its answer, and those tools are gone.",
    )
    max_concurrent_background_runs: int = Field(
        default=4,
        ge=1,
        le=1_000,
        description="Turns of background agents under one root that execute at once, over all workers. Those that the "
        "root asked for wait in line, nested ones are refused.",
    )
    max_idle_runtimes: int = Field(
        default=0,
        ge=0,
        le=100_000,
        description="Taken and without effect: how many conversations a worker keeps in memory is "
        "TARRY_MAX_CACHED_WORKFLOWS, and any other goes on as well.",
    )
    inherit_extensions: bool = Field(
        default=False,
        description="Whether children have all extensions of their parent. Without it they have the built-in ones, "
        "and those whose hooks are asked before calls.",
    )
    open_ai_identity: Annotated[bool, AfterValidator(_never)] = Field(
        default=False,
        alias="openAIIdentity",
        json_schema_extra={"const": False},
        description="Only false: there is no adapter of such an identity here.",
    )
    max_output_bytes: int = Field(
        default=51_200,
        ge=1_024,
        le=MAX_OUTPUT,
        description="Bytes of an answer, a report or an update that a parent reads; the whole stays in the child.",
    )
    max_agents: int = Field(default=256, ge=1, le=4_096, description="Agents that one root may ever have, nested too.")

    def settings(self) -> SubagentSettings:
        """What of it a tree goes by."""
        return SubagentSettings(
            runtime_mode=self.runtime_mode,
            max_depth=self.max_depth,
            max_concurrent_runs=self.max_concurrent_background_runs,
            max_agents=self.max_agents,
            max_output_bytes=self.max_output_bytes,
            inherit_extensions=self.inherit_extensions,
        )

    def over(self, other: SubagentConfig) -> SubagentConfig:
        """These settings, and of `other` what is not given here."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return other.model_copy(update=given)


KEYS = tuple(field.alias or name for name, field in SubagentConfig.model_fields.items())


def read_config(path: Path) -> SubagentConfig:
    """The settings in a file.

    Raises:
        FileError: it holds anything else than it may; with the line.
        FileNotFoundError: nothing is there.
    """
    return parse_config(path, read_text(path))


def parse_config(path: Path, text: str) -> SubagentConfig:
    """The settings that a text is; `path` is for errors.

    Raises:
        FileError: it holds anything else than it may; with the line.
    """
    try:
        values = json.loads(text, object_pairs_hook=_once, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise FileError(path, f"is no JSON: {error.msg}", error.lineno) from None
    except _Twice as error:
        raise FileError(path, str(error), _line_of(text, error.key, last=True)) from None
    except RecursionError:
        raise FileError(path, "is nested too deeply") from None
    except ValueError as error:
        raise FileError(path, f"is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise FileError(path, 'must be one object, such as {"runtimeMode": "background"}', 1)
    for key in values:
        if (wrong := _wrong_key(key)) is not None:
            raise FileError(path, wrong, _line_of(text, key))
    try:
        return SubagentConfig.model_validate(values)
    except ValidationError as error:
        detail = error.errors()[0]
        key = str(detail["loc"][0])
        raise FileError(path, _wrong_value(key, detail), _line_of(text, key)) from None


def json_schema() -> dict[str, Any]:
    """The JSON Schema of the file."""
    schema = SubagentConfig.model_json_schema(by_alias=True)
    for facts in schema["properties"].values():
        # pydantic's are the names once more, in another spelling.
        del facts["title"]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def notes(config: SubagentConfig) -> tuple[str, ...]:
    """What a person should know of settings that do something else here than elsewhere."""
    if config.max_idle_runtimes:
        return (
            "maxIdleRuntimes has no effect: set TARRY_MAX_CACHED_WORKFLOWS on workers to say how many conversations "
            "each keeps in memory",
        )
    return ()


class _Twice(Exception):
    def __init__(self, key: str) -> None:
        super().__init__(f"has `{key}` twice")
        self.key = key


def _once(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise _Twice(key)
        values[key] = value
    return values


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no number")


def _wrong_key(key: str) -> str | None:
    if key in KEYS:
        return None
    if key in RETIRED:
        return f"`{key}` is a setting of earlier times: {RETIRED[key]}"
    near = get_close_matches(key, KEYS, 1, 0.5)
    return f"unknown setting `{key}`" + (f": did you mean `{near[0]}`?" if near else f"; known are {', '.join(KEYS)}")


def _wrong_value(key: str, detail: ErrorDetails) -> str:
    held = json.dumps(detail["input"], ensure_ascii=False)[:200]
    if key == "openAIIdentity" and detail["input"] is True:
        return "`openAIIdentity` cannot be true: there is no adapter of such an identity here; take it out"
    facts = json_schema()["properties"][key]
    if "enum" in facts:
        allowed = "one of " + ", ".join(json.dumps(one) for one in facts["enum"])
    elif facts.get("type") == "integer":
        allowed = f"a whole number from {facts['minimum']} to {facts['maximum']}"
    else:
        allowed = "a text" if key == "$schema" else "false" if "const" in facts else "true or false"
    return f"`{key}` is {held}: give {allowed}"


def _line_of(text: str, key: str, *, last: bool = False) -> int | None:
    found = [match.start() for match in re.finditer(rf"{re.escape(json.dumps(key, ensure_ascii=False))}\s*:", text)]
    return text.count("\n", 0, found[-1 if last else 0]) + 1 if found else None


def main() -> None:
    """Print the JSON Schema."""
    print(json.dumps(json_schema(), indent=2))


if __name__ == "__main__":
    main()
