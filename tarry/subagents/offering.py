"""Which of the tools a request shows, and the agents that there are, in their schema (spec §17.40)."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

from tarry.client.agents import AgentTree
from tarry.client.errors import NoSuchAgents
from tarry.core.subagents.ceilings import DELEGATION, LIFECYCLE, REPORT
from tarry.core.subagents.definition import AgentDefinition, Snapshot
from tarry.offers import OfferAsked, Offered, ToolOffer
from tarry.subagents.delegating import subagent, subagent_fork
from tarry.subagents.discovery import load_snapshot
from tarry.subagents.files import config_dir
from tarry.tools import Tool


async def offered(given: Snapshot | None, asked: OfferAsked) -> Offered:
    """What the tree of the conversation allows; it begins with `given`, else with the files of this host."""
    tree = AgentTree(asked.harness.client, asked.harness.settings, asked.tree_id)
    is_root = tree.root == asked.conversation_id
    snapshot = await _snapshot(tree, given, asked)
    is_foreground = snapshot.settings.runtime_mode == "foreground"
    tools: dict[str, ToolOffer | None] = {
        one.name: _with_names(one, snapshot.definitions) for one in (subagent, subagent_fork)
    }
    if not snapshot.definitions:
        tools |= dict.fromkeys(DELEGATION)
    if is_foreground or (not snapshot.definitions and not await _has_agents(tree, asked)):
        tools |= dict.fromkeys(LIFECYCLE)
    if is_root or is_foreground:
        tools[REPORT] = None
    return Offered(tools)


async def _snapshot(tree: AgentTree, given: Snapshot | None, asked: OfferAsked) -> Snapshot:
    try:
        return await tree.snapshot()
    except NoSuchAgents:
        return await tree.begin(given or _of_this_host(asked))


def _of_this_host(asked: OfferAsked) -> Snapshot:
    return load_snapshot(Path(asked.agent.cwd) if asked.agent.cwd else None, config_dir(asked.harness.settings))


async def _has_agents(tree: AgentTree, asked: OfferAsked) -> bool:
    return bool((await tree.list(asked.conversation_id)).agents)


def _with_names(tool: Tool, definitions: tuple[AgentDefinition, ...]) -> ToolOffer:
    parameters: dict[str, Any] = copy.deepcopy(tool.schema())
    parameters["properties"]["agent"]["enum"] = [one.name for one in definitions]
    agents = "\n".join(f"- {one.name}: {one.description}" for one in definitions)
    return ToolOffer(f"{tool.description}\n\nAgents:\n{agents}", parameters)
