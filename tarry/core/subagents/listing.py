"""How agents are shown (spec §17.9). Pure."""

from __future__ import annotations

from datetime import datetime

from tarry.core.ledger import Ledger
from tarry.core.subagents.paths import ROOT, is_below
from tarry.core.subagents.protocol import AGENT_UPDATE, AgentList, AgentRow, AgentState, Working
from tarry.core.subagents.record import AgentRecord, Phase, Turn
from tarry.core.subagents.roster import Roster

_STATES: dict[Phase, AgentState] = {
    "queued": "queued",
    "granted": "queued",
    "starting": "starting",
    "running": "running",
    "resting": "waiting",
    "waking": "waiting",
}
NAMED = 3
"""Agents that another one waits for, as far as they are named."""
EVENTS = 50
"""Of those that are kept, as far as a list has them."""


def state_of(roster: Roster, agent: AgentRecord) -> tuple[AgentState, datetime, str]:
    """What an agent does, since when, and what it waits for.

    An agent whose turn has ended while agents below it work is waiting, not over.
    """
    turn = agent.turn
    if agent.corrupt:
        return "corrupt", agent.since, agent.corrupt
    if turn is not None:
        if turn.is_stopping:
            return "stopping", turn.since, ""
        return _STATES[turn.phase], turn.since, _reason(roster, agent, turn)
    if roster.is_working(agent):
        return "running", agent.since, ""
    if any(roster.working_below(agent.path)):
        return "waiting", agent.since, _its_agents(roster, agent)
    return ("idle" if agent.ended else "ready"), agent.since, ""


def _reason(roster: Roster, agent: AgentRecord, turn: Turn) -> str:
    if turn.phase in ("queued", "waking"):
        return "a permit"
    if turn.phase == "granted":
        return "its turn before to end"
    if turn.waits_for.startswith(f"{AGENT_UPDATE.name}/"):
        return _its_agents(roster, agent)
    return (turn.waits_for or "its calls") if turn.phase == "resting" else ""


def _its_agents(roster: Roster, agent: AgentRecord) -> str:
    return f"its agents: {named([one.path for one in roster.working_below(agent.path)])}".removesuffix(": ")


def named(paths: list[str]) -> str:
    """Some paths, and how many there are beside them."""
    more = f" and {len(paths) - NAMED} more" if len(paths) > NAMED else ""
    return ", ".join(paths[:NAMED]) + more


def working_row(roster: Roster, agent: AgentRecord) -> Working:
    """A child that works, to the call that reads."""
    state, since, waits_for = state_of(roster, agent)
    return Working(path=agent.path, state=state, since=since, detail=waits_for)


def list_agents(roster: Roster, path: str) -> AgentList:
    """All agents below a path, in the order of their paths."""
    agents = sorted(roster.below(path), key=lambda agent: agent.path.split("/"))
    events = [event for event in roster.events.newest if path == ROOT or is_below(event.path, path)]
    return AgentList(
        root=roster.root,
        path=path,
        agents=tuple(_row(roster, agent) for agent in agents),
        permits=roster.permits.limit,
        permits_used=len(roster.permits.held),
        queued=roster.permits.queued,
        spent=sum((agent.spent for agent in agents), Ledger()),
        events=tuple(events[-EVENTS:]),
    )


def _row(roster: Roster, agent: AgentRecord) -> AgentRow:
    state, since, waits_for = state_of(roster, agent)
    return AgentRow(
        path=agent.path,
        agent_id=agent.agent_id,
        definition=agent.definition,
        description=agent.description,
        state=state,
        since=since,
        waits_for=waits_for,
        pending=len(agent.mailbox.messages),
        updates=roster.completions.unread(agent.agent_id),
        turns=agent.turns,
        turn_id=agent.turn.turn_id if agent.turn is not None else "",
        undelivered=agent.undelivered,
        spent=roster.spent_by(agent),
    )
