"""The extension that lets agents delegate to agents: `subagents()` (spec §17.40)."""

from __future__ import annotations

from functools import partial

from tarry.app import Extension
from tarry.core.subagents.ceilings import SUBAGENTS
from tarry.core.subagents.definition import Snapshot
from tarry.subagents.controlling import interrupt_agent, list_agents
from tarry.subagents.delegating import subagent, subagent_fork
from tarry.subagents.mailing import followup_task, send_message
from tarry.subagents.offering import offered
from tarry.subagents.reporting import report
from tarry.subagents.waiting import wait_agent

TOOLS = (
    subagent,
    subagent_fork,
    send_message,
    followup_task,
    wait_agent,
    interrupt_agent,
    list_agents,
    report,
)
"""All tools of the extension."""


def subagents(snapshot: Snapshot | None = None) -> Extension:
    """The tools to delegate with, and to follow those that work.

    Args:
        snapshot: the catalogue and the settings of trees that begin from now on; by default those of the host that
            serves the first request of a root conversation: `<config dir>/agents/*.md`, `subagent.json`, and those of a
            trusted project. A tree keeps what it began with until it is told to reload.
    """
    return Extension(SUBAGENTS, TOOLS, offer=partial(offered, snapshot))
