"""The agents of a tree and all that is known of them; who may ask, and whom a reference means (spec §17.1, §17.2).

Pure.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field, PrivateAttr

from tarry.core.ledger import Ledger
from tarry.core.subagents.answers import Answers
from tarry.core.subagents.completions import Completions, Waiter
from tarry.core.subagents.definition import Snapshot
from tarry.core.subagents.events import Events
from tarry.core.subagents.lineage import Lineage
from tarry.core.subagents.orders import Order, Orders, TellCall
from tarry.core.subagents.paths import ROOT, Paths, is_below
from tarry.core.subagents.permits import Permits
from tarry.core.subagents.protocol import Caller
from tarry.core.subagents.record import AgentRecord
from tarry.core.subagents.refusing import Refused


class Roster(BaseModel):
    """The state of a tree. `root`: id of the root conversation."""

    tree_id: str
    root: str
    snapshot: Snapshot
    permits: Permits
    paths: Paths = Field(default_factory=Paths)
    agents: dict[str, AgentRecord] = Field(default_factory=dict, description="by agent id")
    completions: Completions = Field(default_factory=Completions)
    answers: Answers = Field(default_factory=Answers)
    ordered: Orders = Field(default_factory=Orders)
    events: Events = Field(default_factory=Events)
    stops: dict[str, int] = Field(default_factory=dict, description="conversation to its newest run that was stopped")
    interrupters: dict[str, Waiter] = Field(default_factory=dict, description="calls that wait until a Stop is over")
    told: int = Field(default=0, description="how often a call was told of something")
    _lineage: Lineage = PrivateAttr(default_factory=Lineage)

    def model_post_init(self, context: Any, /) -> None:
        """Learn who is whose child, of a new tree and of one that was carried."""
        self._lineage = Lineage.made_of(self.agents.values())

    @property
    def orders(self) -> list[Order]:
        """What is to be done, or under way, in the order in which it was given."""
        return self.ordered.open

    def path_of(self, conversation_id: str) -> str:
        """The path of a conversation of the tree; empty: the root's.

        Raises:
            Refused: `unknown_target`.
        """
        if conversation_id in ("", self.root):
            return ROOT
        if (agent := self.agents.get(conversation_id)) is None:
            raise Refused("unknown_target", f"conversation {conversation_id[:80]!r} is none of this tree")
        return agent.path

    def name_of(self, caller: Caller) -> str:
        """Who asks, in an event."""
        return self.path_of(caller.conversation_id) if caller.run else "a person"

    def below(self, path: str) -> list[AgentRecord]:
        """All descendants of the agent at `path`, in the order in which they were started."""
        return [self.agents[one] for one in self._lineage.below(self.paths.agents.get(path, self.root))]

    def children(self, conversation_id: str) -> list[AgentRecord]:
        """The direct children of a conversation."""
        return [self.agents[one] for one in self._lineage.children(conversation_id)]

    def introduce(self, agent: AgentRecord) -> None:
        """One more agent, at a path that is free."""
        self.agents[agent.agent_id] = agent
        self.paths.reserve(agent.path, agent.agent_id)
        self._lineage.add(agent)

    def started_by(self, task_id: str) -> AgentRecord | None:
        """The agent that this call started."""
        return self.agents.get(self._lineage.starters.get(task_id, ""))

    def is_working(self, agent: AgentRecord) -> bool:
        """Whether a turn of it is open, or its parent has not got the completion of one yet."""
        return agent.turn is not None or agent.fetching > 0

    def working_below(self, path: str) -> Iterator[AgentRecord]:
        """The descendants that work."""
        return (agent for agent in self.below(path) if self.is_working(agent))

    def spent_by(self, agent: AgentRecord) -> Ledger:
        """What an agent and all below it spent."""
        return sum((one.spent for one in self.below(agent.path)), agent.spent)

    def check_caller(self, caller: Caller) -> str:
        """Whether somebody may ask for something; the path of the conversation in whose name it is.

        Raises:
            Refused: `invalid`: it is none of this tree; `stopped`: the run that asks was stopped.
        """
        conversation = caller.conversation_id
        if conversation != self.root and conversation not in self.agents:
            raise Refused("invalid", f"conversation {conversation[:80]!r} is none of this tree")
        if not caller.task_id or (caller.run and caller.task_id.partition("~")[0] != conversation):
            raise Refused("invalid", f"the call {caller.task_id[:200]!r} is none of conversation {conversation!r}")
        agent = self.agents.get(conversation)
        is_stopping = agent is not None and agent.turn is not None and agent.turn.is_stopping
        if caller.run and (is_stopping or caller.run <= self.stops.get(conversation, 0)):
            raise Refused("stopped", "the run that asks was stopped: what it asks for is not begun")
        return self.path_of(conversation)

    def saw(self, caller: Caller) -> None:
        """A run of an agent has asked for something."""
        if (agent := self.agents.get(caller.conversation_id)) is not None:
            agent.seen_run = max(agent.seen_run, caller.run)

    def child(self, caller: Caller, reference: str) -> AgentRecord:
        """The child that a reference means; to a person, any agent below.

        Raises:
            Refused: `unknown_target`, `not_a_child` or `corrupt`.
        """
        base = self.path_of(caller.conversation_id)
        path = self.paths.find(reference, base)
        agent = self.agents.get(self.paths.agents.get(path, ""))
        is_own = agent is not None and agent.parent_id == caller.conversation_id
        if agent is None or not (is_own or (not caller.run and is_below(path, base))):
            raise Refused("not_a_child", f"{path} is no child of {base}: only a direct child can be reached like this")
        if agent.corrupt:
            raise Refused("corrupt", f"{path} cannot be used any more: {agent.corrupt}; start another agent")
        return agent

    def tell(self, waiter: Waiter) -> None:
        """Let a call know that it should ask again."""
        self.told += 1
        self.ordered.give(
            TellCall(lane=f"call:{waiter.task_id}", task_id=waiter.task_id, key=waiter.key, number=self.told)
        )

    def tell_readers(self, parent_id: str) -> None:
        """There may be something to read for the calls that wait."""
        for waiter in self.completions.tell(parent_id):
            self.tell(waiter)

    def was_read(self, task_id: str) -> None:
        """What a call has reserved is in its result; calls for which nothing is left to wait for are told."""
        for parent_id in self.completions.read(task_id):
            for waiter in self.completions.release(parent_id, functools.partial(self._has_nothing, parent_id)):
                self.tell(waiter)

    def _has_nothing(self, parent_id: str, path: str) -> bool:
        unread = self.completions.unread_paths(parent_id)
        children = [agent for agent in self.children(parent_id) if path in ("", agent.path)]
        return not any(agent.path in unread or self.is_working(agent) for agent in children)

    def log_end(self, agent: AgentRecord, now: datetime) -> None:
        """Say of the agent, and of those above it, whether nothing of them works any more."""
        while not self.is_working(agent) and not any(self.working_below(agent.path)):
            self.events.add("end", agent.path, now)
            if (parent := self.agents.get(agent.parent_id)) is None:
                return
            agent = parent

    def mark_stopped(self, conversation_id: str, run: int) -> None:
        """What this run of a conversation, and those before it, ask for is not begun any more."""
        self.stops[conversation_id] = max(self.stops.get(conversation_id, 0), run)

    def tell_interrupters(self) -> None:
        """Let those know who wait until a Stop is over."""
        for task_id, waiter in [*self.interrupters.items()]:
            if not self.is_stopping(waiter.path):
                del self.interrupters[task_id]
                self.tell(waiter)

    def is_stopping(self, path: str) -> bool:
        """Whether the agent at `path`, or one below, is being stopped."""
        own = self.agents.get(self.paths.agents.get(path, ""))
        agents = [*([own] if own is not None else []), *self.below(path)]
        return any(agent.turn is not None and agent.turn.is_stopping for agent in agents)
