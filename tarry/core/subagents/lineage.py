"""Who is whose child, so that a question about one agent looks at no other (spec §17.1). Pure.

Made of the agents whenever a tree is read; it is not carried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from tarry.core.subagents.record import AgentRecord


@dataclass
class Lineage:
    """Agents by their ids; `starters`: by the calls that started them."""

    places: dict[str, int] = field(default_factory=dict)
    of: dict[str, list[str]] = field(default_factory=dict)
    starters: dict[str, str] = field(default_factory=dict)

    @classmethod
    def made_of(cls, agents: Iterable[AgentRecord]) -> Lineage:
        """That of these agents, in the order in which they were started."""
        lineage = cls()
        for agent in agents:
            lineage.add(agent)
        return lineage

    def add(self, agent: AgentRecord) -> None:
        """One more, started after all others."""
        self.places[agent.agent_id] = len(self.places)
        self.of.setdefault(agent.parent_id, []).append(agent.agent_id)
        self.starters.setdefault(agent.started_by, agent.agent_id)

    def children(self, conversation_id: str) -> list[str]:
        """The direct children of a conversation, in the order in which they were started."""
        return self.of.get(conversation_id, [])

    def below(self, conversation_id: str) -> list[str]:
        """All descendants, in the order in which they were started."""
        return sorted(self._below(conversation_id), key=self.places.__getitem__)

    def _below(self, conversation_id: str) -> Iterator[str]:
        for child in self.children(conversation_id):
            yield child
            yield from self._below(child)
