"""subagent.json: what it may hold, how two of them come together, and its schema (spec §17.23)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tarry.core.subagents.definition import SubagentSettings
from tarry.subagents.config import KEYS, RETIRED, SubagentConfig, json_schema, notes, parse_config, read_config
from tarry.subagents.discovery import load_catalogue
from tarry.subagents.files import FileError, Home
from tarry.subagents.trust import trust
from tests.support.programs import ROOT

PATH = Path("/config/subagent.json")
EXAMPLE = ROOT / "docs" / "subagent.example.json"
SCHEMA = ROOT / "docs" / "subagent.schema.json"


def parsed(values: dict[str, Any]) -> SubagentConfig:
    return parse_config(PATH, json.dumps(values))


def refused(text: str) -> str:
    with pytest.raises(FileError) as error:
        parse_config(PATH, text)
    return str(error.value).removeprefix(str(PATH))


def test_what_a_file_leaves_out_is_as_the_page_says() -> None:
    config = parsed({})

    assert config.agent_scope == "user"
    assert config.settings() == SubagentSettings(
        runtime_mode="background",
        max_depth=3,
        max_concurrent_runs=4,
        max_agents=256,
        max_output_bytes=51_200,
        inherit_extensions=False,
    )


def test_every_setting_reaches_the_tree() -> None:
    config = parsed(
        {
            "agentScope": "both",
            "maxDepth": 0,
            "runtimeMode": "foreground",
            "maxConcurrentBackgroundRuns": 9,
            "maxIdleRuntimes": 5,
            "inheritExtensions": True,
            "openAIIdentity": False,
            "maxOutputBytes": 2_000,
            "maxAgents": 12,
        }
    )

    assert config.agent_scope == "both"
    assert config.settings() == SubagentSettings(
        runtime_mode="foreground",
        max_depth=0,
        max_concurrent_runs=9,
        max_agents=12,
        max_output_bytes=2_000,
        inherit_extensions=True,
    )


def test_a_projects_settings_are_over_the_users_key_by_key() -> None:
    user = parsed({"maxDepth": 5, "runtimeMode": "foreground", "maxAgents": 7})
    project = parsed({"runtimeMode": "background", "maxDepth": 3})

    together = project.over(user)

    assert (together.runtime_mode, together.max_depth, together.max_agents) == ("background", 3, 7)


def test_only_a_trusted_projects_settings_count(tmp_path: Path) -> None:
    home, project = tmp_path / "config", tmp_path / "project"
    (project / ".tarry").mkdir(parents=True)
    (project / ".tarry" / "subagent.json").write_text('{"maxDepth": 1}')
    before = load_catalogue(project, home)

    trust(Home(home), project)
    after = load_catalogue(project, home)

    assert (before.config.max_depth, before.config_files) == (3, ())
    assert (after.config.max_depth, after.config_files) == (1, (project / ".tarry" / "subagent.json",))


@pytest.mark.parametrize(
    ("key", "value", "instead"),
    [
        ("enableRunInBackground", False, '"runtimeMode": "foreground" for false'),
        ("enableRunInBackground", True, '"runtimeMode": "background" for true'),
        ("defaultBackground", True, "nothing takes its place, background children can always be continued"),
        ("backgroundProtocol", "mailbox", "nothing takes its place, the durable mailbox is the only protocol"),
        ("syncBundledAgents", False, "presets are installed by `tarry agents init` alone"),
        ("reportDelivery", "wake", "nothing takes its place, a report never starts a turn of the parent"),
    ],
)
def test_a_retired_key_is_refused_with_what_takes_its_place(key: str, value: object, instead: str) -> None:
    said = refused(json.dumps({"maxDepth": 3, key: value}, indent=1))

    assert said.startswith(f":3: `{key}` is a setting of earlier times: ")
    assert instead in said
    assert key in RETIRED


@pytest.mark.parametrize(
    ("key", "said"),
    [
        ("maxdepth", "unknown setting `maxdepth`: did you mean `maxDepth`?"),
        ("max_concurrent_background_runs", "did you mean `maxConcurrentBackgroundRuns`?"),
        ("runTimeMode", "did you mean `runtimeMode`?"),
        ("colour", "unknown setting `colour`; known are $schema, agentScope, maxDepth"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_known_one(key: str, said: str) -> None:
    assert said in refused(json.dumps({key: 1}))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"maxDepth": "3"}', ':1: `maxDepth` is "3": give a whole number from 0 to 32'),
        ('{"maxDepth": 3.5}', ":1: `maxDepth` is 3.5: give a whole number from 0 to 32"),
        ('{"maxDepth": true}', ":1: `maxDepth` is true: give a whole number from 0 to 32"),
        ('{"maxDepth": null}', ":1: `maxDepth` is null: give a whole number from 0 to 32"),
        ('{\n"maxDepth": -1}', ":2: `maxDepth` is -1: give a whole number from 0 to 32"),
        (
            '{"maxConcurrentBackgroundRuns": 0}',
            ":1: `maxConcurrentBackgroundRuns` is 0: give a whole number from 1 to 1000",
        ),
        ('{"maxOutputBytes": 1}', ":1: `maxOutputBytes` is 1: give a whole number from 1024 to 262144"),
        ('{"runtimeMode": "both"}', ':1: `runtimeMode` is "both": give one of "background", "foreground"'),
        ('{"agentScope": "all"}', ':1: `agentScope` is "all": give one of "user", "project", "both"'),
        ('{"inheritExtensions": 1}', ":1: `inheritExtensions` is 1: give true or false"),
        ('{"openAIIdentity": 0}', ":1: `openAIIdentity` is 0: give false"),
        ('{"$schema": 1}', ":1: `$schema` is 1: give a text"),
        ('{"maxDepth": 1,\n"maxDepth": 2}', ":2: has `maxDepth` twice"),
        ('{"maxDepth": NaN}', ": is no JSON: NaN is no number"),
        ('{\n"maxDepth": }', ":2: is no JSON: Expecting value"),
        ("[]", ':1: must be one object, such as {"runtimeMode": "background"}'),
        ("", ":1: is no JSON: Expecting value"),
        ("[" * 100_000, ": is nested too deeply"),
    ],
)
def test_what_is_wrong_is_told_with_file_and_line(text: str, said: str) -> None:
    assert refused(text) == said


def test_an_identity_that_nothing_here_gives_is_refused() -> None:
    assert refused('{"openAIIdentity": true}') == (
        ":1: `openAIIdentity` cannot be true: there is no adapter of such an identity here; take it out"
    )


def test_a_setting_without_effect_is_taken_and_told() -> None:
    assert notes(parsed({"maxIdleRuntimes": 0})) == ()
    assert notes(parsed({"maxIdleRuntimes": 8})) == (
        "maxIdleRuntimes has no effect: set TARRY_MAX_CACHED_WORKFLOWS on workers to say how many conversations each "
        "keeps in memory",
    )


def test_no_file_is_ever_rewritten(tmp_path: Path) -> None:
    file = tmp_path / "subagent.json"
    file.write_text('{ "defaultBackground": true }')

    load_catalogue(tmp_path, tmp_path)

    assert file.read_text() == '{ "defaultBackground": true }'


def test_the_schema_in_the_docs_is_the_models() -> None:
    assert json.loads(SCHEMA.read_text()) == json_schema(), (
        "python -m tarry.subagents.config > docs/subagent.schema.json"
    )


def test_the_example_in_the_docs_has_every_setting_with_its_default() -> None:
    values = json.loads(EXAMPLE.read_text())

    assert tuple(values) == KEYS
    assert read_config(EXAMPLE).model_copy(update={"schema_": ""}) == SubagentConfig()


def test_the_schema_takes_and_refuses_what_the_reader_does() -> None:
    validator = Draft202012Validator(json_schema())

    assert validator.is_valid(json.loads(EXAMPLE.read_text()))
    for wrong in ({"maxDepth": -1}, {"runtimeMode": "both"}, {"openAIIdentity": True}, {"defaultBackground": True}):
        assert not validator.is_valid(wrong)
