"""How agents are stopped: one and all below it, or all that a stopped conversation asked for (spec §17.7).

Pure. What waits to begin ends unstarted, what has begun is aborted, and what was stopped starts nothing more.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from tarry.core.subagents.completions import Waiter
from tarry.core.subagents.orders import AbortConversation
from tarry.core.subagents.paths import is_below
from tarry.core.subagents.protocol import OWN, Caller, Interrupt, Interrupted, StopBelow
from tarry.core.subagents.record import AgentRecord, Turn
from tarry.core.subagents.refusing import Refused
from tarry.core.subagents.turns import AgentTurns

UNSTARTED = "stopped before it began"


class Stops(AgentTurns):
    """Stops, by an agent above and by the conversation itself."""

    def interrupt(self, request: Interrupt, now: datetime) -> Interrupted:
        """Stop a descendant of the caller, and all below it; one that was stopped before by this call stays alone.

        Raises:
            Refused: and nothing is stopped.
        """
        caller = request.caller
        known = self.answers.find("interrupt", caller.task_id, request)
        if known is None:
            self.check_caller(caller)
        agent = self._descendant(caller, request.target)
        if known is None:
            self.saw(caller)
            self._stop_all(agent, now)
            self.events.add("interrupt", agent.path, now, detail=f"by {self.name_of(caller)}")
        state: Literal["stopping", "idle"] = "stopping" if self.is_stopping(agent.path) else "idle"
        if request.key and state == "stopping":
            self.interrupters[caller.task_id] = Waiter(
                task_id=caller.task_id, key=request.key, parent_id=caller.conversation_id, path=agent.path
            )
        self.advance(now)
        interrupted = Interrupted(path=agent.path, agent_id=agent.agent_id, state=state)
        if known is None:
            self.answers.keep("interrupt", caller.task_id, request, interrupted)
        return interrupted

    def _descendant(self, caller: Caller, reference: str) -> AgentRecord:
        if reference == OWN:
            if (own := self.started_by(caller.task_id)) is None:
                raise Refused("unknown_target", "this call has started no agent")
            return own
        base = self.path_of(caller.conversation_id)
        path = self.paths.find(reference, base)
        if not is_below(path, base):
            raise Refused("not_a_descendant", f"{path} is not below {base}: only a descendant can be interrupted")
        return self.agents[self.paths.agents[path]]

    def stopped(self, stop: StopBelow, now: datetime) -> None:
        """A conversation was stopped: so is all that this run, or an earlier one, asked for, and all below that."""
        if stop.conversation_id != self.root and stop.conversation_id not in self.agents:
            return
        path = self.path_of(stop.conversation_id)
        self.mark_stopped(stop.conversation_id, stop.run)
        self.completions.leave(stop.conversation_id, stop.run)
        asked = [child for child in self.children(stop.conversation_id) if child.asked_run <= stop.run]
        stopped = [self._stop_all(child, now) for child in asked]
        if any(stopped):
            self.events.add("stop", path, now)
        self.advance(now)

    def _stop_all(self, agent: AgentRecord, now: datetime) -> bool:
        """Stop an agent and all below it; whether there was anything to stop."""
        agents = [agent, *self.below(agent.path)]
        has_open = any(one.turn is not None and not one.turn.is_stopping for one in agents)
        for one in agents:
            self._stop_turns(one, now)
        return has_open

    def _stop_turns(self, agent: AgentRecord, now: datetime) -> None:
        """End what waits to begin, and stop what has begun; a repeat changes nothing. `advance` comes after."""
        if agent.next is not None:
            self.end_unfetched(agent, agent.next, UNSTARTED, now)
        turn = agent.turn
        if turn is None or turn.is_stopping:
            return
        self.mark_stopped(agent.agent_id, agent.seen_run)
        if not turn.has_begun or self.is_untaken(turn.turn_id):
            self.end_unfetched(agent, turn, UNSTARTED, now)
            return
        turn.is_stopping = True
        self._withdraw_joins(agent, turn)
        if turn.phase == "waking":
            # Cleaning up needs no permit: a Stop must not wait for others.
            self.permits.free(turn.turn_id)
            turn.phase = "running"
            self.let_go_on(agent, turn)
        if turn.open:
            self.ordered.give(AbortConversation(lane=agent.agent_id, agent_id=agent.agent_id, turn_id=turn.turn_id))
        self.end_if_over(agent, turn, now)

    def _withdraw_joins(self, agent: AgentRecord, turn: Turn) -> None:
        for request_id in [*turn.open]:
            if self.ordered.withdraw(request_id):
                turn.open.remove(request_id)
                agent.mailbox.give_back(request_id)
