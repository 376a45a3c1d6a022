"""Which tools a request shows for delegating, and what children may have (spec §17.40, §17.24)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tarry.app import App, Extension
from tarry.core.subagents.ceilings import DELEGATION, LIFECYCLE
from tarry.core.subagents.definition import Snapshot
from tarry.embedded import EmbeddedServer
from tarry.offers import Offered
from tarry.subagents.extension import TOOLS, subagents
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.answers import ask
from tests.support.delegating import agent, delegation, snapshot_of
from tests.support.stage import stage

START = call("subagent", agent="scout", prompt="Look.", task_name="look")
WAIT = call("wait_agent", timeout_seconds=120)
ROOT = [START, WAIT, say("done")]


@tool
def read() -> str:
    """Read."""
    return "read"


@tool
def write() -> str:
    """Write."""
    return "written"


async def test_agents_of_the_catalogue_are_an_enum_with_what_each_is_for(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with delegation(server, tmp_path, [say("hi")], {"scout": [say("a")], "worker": [say("b")]}) as made:
        await ask(made.root)

    for name in DELEGATION:
        assert made.heard.schema(name)["properties"]["agent"]["enum"] == ["scout", "worker"]
    [spec] = [spec for spec in made.heard.requests["root"][0].tools if spec.name == "subagent"]
    assert spec.description.endswith("Agents:\n- scout: the scout\n- worker: the worker")
    assert made.heard.tools("root") == [one.name for one in TOOLS if one.name != "report"]


async def test_without_agents_there_are_no_tools_for_them(server: EmbeddedServer, tmp_path: Path) -> None:
    async with delegation(server, tmp_path, [START, say("hi")], snapshot=Snapshot(), tools=[read]) as made:
        answer = await ask(made.root)

    assert made.heard.tools("root") == ["read"]
    assert answer.codes == ["tool_unavailable"]


async def test_reload_counts_from_the_next_request_on_and_a_tree_keeps_what_it_began_with_until_then(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with delegation(server, tmp_path, [say("hi")], {"scout": [say("a")]}, worker=False) as made:
        async with made.on.worker():
            await ask(made.root)
        other = App(made.on.app.model, extensions=[subagents(snapshot_of([agent("other")]))])
        async with made.on.worker(other):
            await ask(made.root)
        before = made.heard.schema("subagent")["properties"]["agent"]["enum"]
        async with made.on.worker():
            await (await made.tree()).reload(snapshot_of([agent("planner", model=None)]))
            await ask(made.root)
            after = made.heard.schema("subagent")["properties"]["agent"]["enum"]
            await (await made.tree()).reload(Snapshot())
            await ask(made.root)

    assert (before, after) == (["scout"], ["planner"])
    assert made.heard.tools("root") == []


async def test_child_reports_and_has_the_instructions_and_the_thinking_of_its_definition(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    snapshot = snapshot_of([agent("scout", thinking="high", prompt="You look around.")])
    async with delegation(server, tmp_path, ROOT, {"scout": [say("a")]}, snapshot=snapshot) as made:
        await ask(made.root)

    [request] = made.heard.requests["scout"]
    assert (request.instructions, request.thinking) == ("You look around.", "high")
    assert made.heard.tools("scout") == [one.name for one in TOOLS]


async def test_ceiling_keeps_all_but_the_tools_it_names_and_report(server: EmbeddedServer, tmp_path: Path) -> None:
    snapshot = snapshot_of([agent("scout", tools=("read",))], inherit_extensions=True)
    async with delegation(
        server, tmp_path, ROOT, {"scout": [call("write"), say("a")]}, snapshot=snapshot, tools=[read, write]
    ) as made:
        await ask(made.root)

    assert made.heard.tools("scout") == ["read", "report"]
    assert 'There is no tool "write". There are: read, report.' in made.heard.requests["scout"][-1].messages[-1].text


@pytest.mark.parametrize(
    ("fields", "settings", "told"),
    [
        ({"tools": ("fly",)}, {"inherit_extensions": True}, "there is no tool fly for this child; known are:"),
        ({"tools": ("read",)}, {}, "which children do not have: set inheritExtensions to true"),
        ({"tools": ("$magic",)}, {}, "unknown name $magic"),
        ({"tools": ("$mutation",)}, {}, "no tool that changes files is active"),
        ({"model": "none"}, {}, "there is no model 'none' here"),
        ({"tools": ("hidden",)}, {"inherit_extensions": True}, "the tool hidden is not active for this child"),
    ],
)
async def test_definition_that_cannot_be_is_refused_before_there_is_a_child(
    server: EmbeddedServer, tmp_path: Path, fields: dict[str, Any], settings: dict[str, Any], told: str
) -> None:
    @tool
    def hidden() -> str:
        """Not offered by its extension."""
        return ""

    hiding = Extension("hiding", [hidden], offer=lambda asked: Offered({"hidden": None}))
    snapshot = snapshot_of([agent("scout", **fields)], **settings)
    async with delegation(
        server,
        tmp_path,
        [START, say("done")],
        {"scout": [say("a")]},
        snapshot=snapshot,
        tools=[read],
        extensions=[hiding],
    ) as made:
        answer = await ask(made.root)
        rows = await made.rows()

    assert told in answer.texts[0]
    assert (answer.results[0].is_error, rows) == (True, [])


async def test_child_at_the_greatest_depth_cannot_delegate(server: EmbeddedServer, tmp_path: Path) -> None:
    async with delegation(server, tmp_path, ROOT, {"scout": [say("a")]}, max_depth=1) as made:
        await ask(made.root)

    assert not {*DELEGATION, *LIFECYCLE} & {*made.heard.tools("scout")}


async def test_definitions_of_this_host_count_without_a_snapshot(server: EmbeddedServer, tmp_path: Path) -> None:
    agents = tmp_path / "config" / "agents"
    agents.mkdir(parents=True)
    (agents / "scout.md").write_text("---\nname: scout\ndescription: looks\n---\nYou look.\n")
    heard: list[list[str]] = []
    model = ScriptedModel(
        [say("hi")], on_request=lambda request: heard.append([spec.description for spec in request.tools])
    )
    app = App(model=model, extensions=[subagents()])
    async with stage(server, app, tmp_path / "store", config_dir=str(tmp_path / "config")) as on:
        await ask(on.harness.conversation())

    assert heard[0][0].endswith("Agents:\n- scout: looks")
