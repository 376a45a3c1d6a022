"""`list_agents` and `interrupt_agent`: what agents do, and an end to it (spec §17.44)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated

from pydantic import Field

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.core.subagents.protocol import AGENT_UPDATE, AgentList, AgentRow, Interrupted
from tarry.subagents.telling import Told, refusals_are_results, span
from tarry.tools import ToolResult, tool

STOP_PATIENCE = timedelta(seconds=30)
"""How long an interrupt waits until it is over."""
KEY = "stopped"


@tool(replay="safe")
@refusals_are_results
async def list_agents(api: ToolApi) -> Told:
    """List all agents below you: what each does, messages that wait for it, ends that it has not read."""
    agents = await api.agents.list()
    return ToolResult(_table(agents, api.now()), details=agents.model_dump(mode="json", exclude={"events"}))


def _table(agents: AgentList, now: datetime) -> str:
    if not agents.agents:
        return "There are no agents below you."
    return "\n".join(_line(row, now) for row in agents.agents)


def _line(row: AgentRow, now: datetime) -> str:
    waits = f" for {row.waits_for}" if row.state == "waiting" and row.waits_for else ""
    lost = f" undelivered={row.undelivered}" if row.undelivered else ""
    about = f": {row.description}" if row.description else ""
    return (
        f"{row.path} {row.state}{waits} since {span(now - row.since)} pending={row.pending} updates={row.updates}"
        f"{lost} turns={row.turns} ({row.definition}, id {row.agent_id}){about}"
    )


@tool(replay="safe")
@refusals_are_results
async def interrupt_agent(
    agent: Annotated[str, Field(description="Path or id of an agent below you")], api: ToolApi
) -> Told:
    """Stop what an agent does, and all agents below it. Its conversation stays: followup_task goes on with it."""
    found = await api.agents.interrupt(agent, key=KEY if api.wake is None else "")
    if found.state == "stopping" and api.wake is None:
        return Sleep(until=STOP_PATIENCE, signals=[AGENT_UPDATE.key(KEY)])
    return ToolResult(_ended(found, waited=api.wake is not None), details=found.model_dump(mode="json"))


def _ended(found: Interrupted, *, waited: bool) -> str:
    if found.state == "stopping":
        return f"{found.path} is being stopped, which takes over {STOP_PATIENCE.seconds} s already."
    return f"{found.path} was stopped." if waited else f"{found.path} was doing nothing."
