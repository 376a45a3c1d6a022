"""From the moment a turn is asked for until its parent can read how it ended (spec §17.4 to §17.6).

Pure. A turn is queued, has a permit, begins when its messages are durable in the conversation, may rest and be woken,
and ends when everything that was submitted for it has settled. Whatever way it ends, there is one completion.
"""

from __future__ import annotations

from datetime import datetime

from tarry.core.settled import Settled
from tarry.core.subagents.definition import RuntimeMode
from tarry.core.subagents.orders import (
    AbortConversation,
    Aborted,
    BeginTurn,
    Begun,
    Fetched,
    FetchTurn,
    Grant,
    LookAtCall,
    Looked,
    Order,
    Outcome,
)
from tarry.core.subagents.protocol import Caller, Completion, CompletionStatus, TurnNotice, run_number
from tarry.core.subagents.record import AgentRecord, Turn
from tarry.core.subagents.refusing import Refused
from tarry.core.subagents.roster import Roster

NAMED_WORKING = 8
"""Children that a completion names which had not ended."""
MAX_DETAIL = 500


class AgentTurns(Roster):
    """What becomes of turns."""

    # Asked for.

    def check_permit(self, caller: Caller, mode: RuntimeMode) -> None:
        """Whether a turn may be asked for now: one that the turn of an agent waits for must not queue behind it.

        Raises:
            Refused: `capacity`.
        """
        if mode == "background" and caller.conversation_id != self.root and caller.run and not self.permits.is_free:
            raise Refused(
                "capacity",
                f"all {self.permits.limit} permits are in use, and nested work does not queue: do it yourself, or try "
                "again when an agent has ended",
            )

    def ask(self, agent: AgentRecord, mode: RuntimeMode, caller: Caller, now: datetime) -> Turn:
        """A new turn with all that waits in the mailbox; `check_permit` let it through."""
        turn = agent.new_turn(mode, caller.run, now)
        agent.since = now
        agent.mailbox.claim(turn.turn_id)
        if mode == "background":
            self.permits.start(turn.turn_id)
        else:
            turn.phase = "granted"
        self.advance(now)
        return turn

    def join(self, agent: AgentRecord, turn: Turn, caller: Caller) -> None:
        """All that waits in the mailbox goes into a turn that is open, which is now the caller's as well."""
        agent.asked_run = max(agent.asked_run, caller.run)
        newest = turn.open[-1]
        if turn.has_begun and not self.is_untaken(newest):
            newest = turn.add_request()
            self._submit(agent, turn, newest)
        agent.mailbox.claim(newest)

    def is_untaken(self, request_id: str) -> bool:
        """Whether a submission was ordered and is not under way yet."""
        return any(
            isinstance(order, BeginTurn) and order.request_id == request_id and not order.is_taken
            for order in self.orders
        )

    def _submit(self, agent: AgentRecord, turn: Turn, request_id: str) -> None:
        if agent.birth is not None:
            turn.output = agent.birth.output
        self.ordered.give(
            BeginTurn(
                lane=agent.agent_id,
                agent_id=agent.agent_id,
                path=agent.path,
                parent_id=agent.parent_id,
                turn_id=turn.turn_id,
                request_id=request_id,
                mode=turn.mode,
                joins=request_id != turn.turn_id,
                output=turn.output,
            )
        )

    # Permitted.

    def advance(self, now: datetime) -> None:
        """Give out the permits that are free, and begin what can begin."""
        for turn_id in self.permits.grant():
            agent = self.agents[turn_id.rpartition(".")[0]]
            turn = agent.turn if agent.turn is not None and agent.turn.turn_id == turn_id else agent.next
            if turn is None:  # pragma: no cover  (a turn that is over has given its place in the queue back)
                self.permits.free(turn_id)
            elif turn.phase == "waking":
                turn.phase, turn.since = "running", now
                self.let_go_on(agent, turn)
            else:
                turn.phase = "granted"
        for agent in self.agents.values():
            if agent.turn is not None and agent.turn.phase == "granted":
                agent.turn.phase, agent.turn.since = "starting", now
                self._submit(agent, agent.turn, agent.turn.turn_id)
                self.events.add("turn-start", agent.path, now, turn_id=agent.turn.turn_id)

    def let_go_on(self, agent: AgentRecord, turn: Turn) -> None:
        """Tell the run of a turn that its woken code may go on."""
        notice = TurnNotice(conversation_id=agent.agent_id, generation_id=turn.generation_id, number=turn.wanted)
        self.ordered.give(Grant(lane=f"grant:{agent.agent_id}", notice=notice))

    def rested(self, notice: TurnNotice, now: datetime) -> None:
        """Nothing of a turn executes: its permit is free. A late or repeated notice changes nothing."""
        turn = self._turn_of(notice)
        if turn is None or notice.number <= turn.rest:
            return
        turn.rest, turn.waits_for = notice.number, notice.waits_for
        if turn.phase in ("starting", "running"):
            turn.phase, turn.since = "resting", now
            self.permits.free(turn.turn_id)
            self.advance(now)

    def wants(self, notice: TurnNotice, now: datetime) -> None:
        """Something of a turn was woken, and goes on with a permit; what needs none goes on at once."""
        turn = self._turn_of(notice)
        if turn is None:
            # A run that a person began, or one that is over by what is known here: not counted, it must not hang.
            self.ordered.give(Grant(lane=f"grant:{notice.conversation_id}", notice=notice))
            return
        if notice.number < turn.wanted:
            return
        agent = self.agents[notice.conversation_id]
        turn.wanted, turn.rest = notice.number, max(turn.rest, notice.number)
        if turn.phase == "waking":
            return
        if turn.phase == "resting" and turn.mode == "background" and not turn.is_stopping:
            turn.phase, turn.since = "waking", now
            self.permits.wake(turn.turn_id)
            self.advance(now)
            return
        if turn.phase == "resting":
            turn.phase, turn.since = "running", now
        self.let_go_on(agent, turn)

    def _turn_of(self, notice: TurnNotice) -> Turn | None:
        """The open turn, when the notice is of its newest run."""
        agent = self.agents.get(notice.conversation_id)
        if agent is None or agent.turn is None or not agent.turn.has_begun:
            return None
        run = run_number(notice.generation_id)
        agent.seen_run = max(agent.seen_run, run)
        return agent.turn if run > agent.ended_run and agent.turn.sees(notice.generation_id) else None

    # Over.

    def settled(self, settled: Settled, now: datetime) -> None:
        """A submission of a turn is over. One that is unknown, or was told of before, changes nothing."""
        agent = self.agents.get(settled.conversation_id)
        if agent is None or agent.turn is None or settled.request_id not in agent.turn.open:
            return
        if not agent.turn.has_begun:
            return
        if settled.was_placed:
            self._is_durable(agent, settled.request_id)
        else:
            sent = {name for name in agent.turn.open if not self.is_untaken(name)}
            agent.mailbox.give_back(settled.request_id, sent=sent)
        self.ordered.settle(settled.request_id)
        agent.turn.settle(settled)
        self.end_if_over(agent, agent.turn, now)
        self.advance(now)

    def _is_durable(self, agent: AgentRecord, request_id: str) -> None:
        agent.mailbox.consume(request_id)
        agent.birth = None

    def end_if_over(self, agent: AgentRecord, turn: Turn, now: datetime) -> None:
        """End a turn of which everything has settled."""
        if turn.open:
            return
        end = turn.end
        status: CompletionStatus = "done" if end is not None and end.status == "done" else "unanswered"
        self._end(agent, turn, now)
        agent.fetching += 1
        self.ordered.give(
            FetchTurn(
                lane=agent.agent_id,
                agent_id=agent.agent_id,
                turn_id=turn.turn_id,
                status=status,
                reason="" if status == "done" else (end.reason if end else "") or "lost",
                detail=end.detail[:MAX_DETAIL] if end else "",
                answer=end.answer if end else None,
                answer_text=end.answer_text if end else None,
                max_bytes=self.snapshot.settings.max_output_bytes,
                ended=now,
                working=tuple(one.path for one in self.children(agent.agent_id) if self.is_working(one))[
                    :NAMED_WORKING
                ],
            )
        )
        for task_id in self.completions.readers(agent.agent_id):
            self.look_at(task_id)

    def look_at(self, task_id: str) -> None:
        """Ask whether a call that has reserved something is over, unless that is asked already."""
        if not any(isinstance(order, LookAtCall) and order.task_id == task_id for order in self.orders):
            self.ordered.give(LookAtCall(lane=f"look:{task_id}", task_id=task_id))

    def _end(self, agent: AgentRecord, turn: Turn, now: datetime) -> None:
        """A turn is no longer there; its permit, or its place in the queue, is free."""
        self.permits.free(turn.turn_id)
        agent.ended_run = max(agent.ended_run, run_number(turn.generation_id))
        if agent.turn is turn:
            agent.turn, agent.next = agent.next, None
            self.completions.leave(agent.agent_id)
        else:
            agent.next = None
        if turn.is_stopping:
            self.mark_stopped(agent.agent_id, agent.seen_run)
        agent.since = now
        self.tell_interrupters()

    def end_unfetched(self, agent: AgentRecord, turn: Turn, detail: str, now: datetime, *, lost: bool = False) -> None:
        """A turn ends of which there is nothing to look up: what it claimed waits again."""
        for request_id in turn.open:
            self.ordered.withdraw(request_id)
            agent.mailbox.give_back(request_id)
        self._end(agent, turn, now)
        completion = Completion(
            update_id=turn.turn_id,
            turn_id=turn.turn_id,
            path=agent.path,
            agent_id=agent.agent_id,
            status="unanswered",
            reason="lost" if lost else "aborted",
            detail=detail[:MAX_DETAIL],
            ended=now,
            spent=self.spent_by(agent),
        )
        self._complete(agent, completion, now)

    def _complete(self, agent: AgentRecord, completion: Completion, now: datetime) -> None:
        agent.ended += 1
        how = completion.status if completion.status == "done" else f"{completion.status}: {completion.reason}"
        self.events.add("turn-end", agent.path, now, turn_id=completion.turn_id, detail=how)
        if not self.completions.append(agent.parent_id, completion):
            agent.could_not_deliver(completion.turn_id)
            self.events.add(
                "completion-error", agent.path, now, turn_id=completion.turn_id, detail="the parent has too many unread"
            )
        self.tell_readers(agent.parent_id)
        self.log_end(agent, now)

    # What became of orders.

    def due(self) -> list[Order]:
        """The orders to carry out now; `take` each, and tell how it went by `done`."""
        return self.ordered.due()

    def take(self, order: Order) -> Order:
        """The order is under way: it, with all that it needs."""
        self.ordered.take(order)
        if not isinstance(order, BeginTurn):
            return order
        agent = self.agents[order.agent_id]
        messages = agent.mailbox.claimed(order.request_id)
        return order.model_copy(update={"messages": messages, "birth": agent.birth})

    def done(self, order_id: str, outcome: Outcome, now: datetime) -> None:
        """An order was carried out, and this came of it; a repeat changes nothing."""
        order = self.ordered.done(order_id)
        if isinstance(order, BeginTurn) and isinstance(outcome, Begun):
            self._begun(self.agents[order.agent_id], order, outcome, now)
        elif isinstance(order, AbortConversation) and isinstance(outcome, Aborted):
            self._aborted(self.agents[order.agent_id], order, outcome, now)
        elif isinstance(order, FetchTurn):
            self._fetched(order, outcome if isinstance(outcome, Fetched) else Fetched(), now)
        elif isinstance(order, LookAtCall) and isinstance(outcome, Looked):
            self._looked(order.task_id, outcome)
        self.advance(now)

    def _begun(self, agent: AgentRecord, order: BeginTurn, begun: Begun, now: datetime) -> None:
        turn = agent.turn
        if begun.is_corrupt:
            agent.corrupt = begun.failed or "its conversation is not what it should be"
        if not begun.failed and not begun.is_corrupt:
            if begun.is_queued:
                agent.birth = None
            else:
                self._is_durable(agent, order.request_id)
            if turn is not None and turn.turn_id == order.turn_id:
                turn.sees(begun.generation_id)
                if turn.phase == "starting":
                    turn.phase = "running"
            if begun.settled is not None:
                self.settled(begun.settled, now)
        elif turn is None or order.request_id not in turn.open:
            return
        elif order.joins:
            turn.open.remove(order.request_id)
            agent.mailbox.give_back(order.request_id)
            self.end_if_over(agent, turn, now)
        else:
            self.end_unfetched(agent, turn, begun.failed or agent.corrupt, now, lost=True)

    def _aborted(self, agent: AgentRecord, order: AbortConversation, aborted: Aborted, now: datetime) -> None:
        turn = agent.turn
        if aborted.is_gone and turn is not None and turn.turn_id == order.turn_id:
            self.end_unfetched(agent, turn, "its conversation is gone", now, lost=True)

    def _fetched(self, order: FetchTurn, fetched: Fetched, now: datetime) -> None:
        agent = self.agents[order.agent_id]
        agent.fetching -= 1
        agent.spent = agent.spent if fetched.spent is None else fetched.spent
        text = fetched.text
        completion = Completion(
            update_id=order.turn_id,
            turn_id=order.turn_id,
            path=agent.path,
            agent_id=agent.agent_id,
            status="unanswered" if fetched.reason else order.status,
            reason=fetched.reason or order.reason,
            detail=order.detail,
            text=text.text if text else "",
            blob=text.blob if text else "",
            utf8_bytes=text.utf8_bytes if text else 0,
            is_cut=fetched.is_cut,
            ended=order.ended,
            spent=self.spent_by(agent),
            working=order.working,
        )
        self._complete(agent, completion, now)

    def _looked(self, task_id: str, looked: Looked) -> None:
        if looked.state == "read":
            self.was_read(task_id)
        elif looked.state == "over":
            for parent_id in self.completions.give_back(task_id):
                self.tell_readers(parent_id)
