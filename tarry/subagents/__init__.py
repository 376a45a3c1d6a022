"""Agents that delegate to agents: the tools for it, and the files of a host that define them (docs/subagents.md)."""

from tarry.core.subagents.definition import AgentDefinition, RuntimeMode, Snapshot, SubagentSettings
from tarry.core.subagents.protocol import AgentList, AgentRow
from tarry.subagents.discovery import load_snapshot
from tarry.subagents.extension import TOOLS, subagents

__all__ = [
    "TOOLS",
    "AgentDefinition",
    "AgentList",
    "AgentRow",
    "RuntimeMode",
    "Snapshot",
    "SubagentSettings",
    "load_snapshot",
    "subagents",
]
