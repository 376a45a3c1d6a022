"""A whole tree in any order of events keeps its promises (spec §17.3 to §17.7).

No message is lost, doubled or overtaken; every turn that was accepted has one completion, which one call reads; never
more turns execute than there are permits; top-level starts begin in order; nothing stays held when all is over.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

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
)
from tarry.core.subagents.protocol import Caller, is_joined
from tarry.core.subagents.record import AgentRecord
from tarry.core.subagents.refusing import Refused
from tarry.core.subagents.tree import Tree
from tests.support.trees import NOW, ROOT, Bench

LIMIT = 2


@dataclass
class Child:
    """The conversation of an agent, as far as a tree has to do with it."""

    run: int = 0
    open: list[str] = field(default_factory=list)
    rests: int = 0
    is_resting: bool = False
    awaits_grant: bool = False

    def land(self, request_id: str) -> None:
        if not self.open:
            self.run, self.rests, self.is_resting, self.awaits_grant = self.run + 1, 0, False, False
        self.open.append(request_id)

    @property
    def executes(self) -> bool:
        return bool(self.open) and not self.is_resting


class Growing(RuleBasedStateMachine):
    """A tree, the conversations that it directs, and what was asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(limit=LIMIT, depth=3, agents=8)
        self.children: dict[str, Child] = {}
        self.root_run = 1
        self.names = 0
        self.taken: dict[str, Order] = {}
        self.landed: set[str] = set()
        self.sent: dict[str, list[str]] = {}
        self.delivered: dict[str, list[str]] = {}
        self.accepted: list[str] = []
        self.first_begins: dict[str, int] = {}
        self.reading: dict[str, list[str]] = {}
        self.was_read: list[str] = []

    @property
    def tree(self) -> Tree:
        return self.bench.tree

    def _name(self) -> str:
        self.names += 1
        return str(self.names)

    def _caller(self, data: st.DataObject) -> Caller:
        """A call of the root, or of an agent whose code executes; sometimes a late one."""
        executing = [agent for agent in self.tree.agents.values() if self.children[agent.agent_id].run]
        agent = data.draw(st.sampled_from([None, *executing]))
        if agent is None:
            return self.bench.caller(run=self.root_run)
        return self.bench.caller(agent.path, run=self.children[agent.agent_id].run)

    def _child_of(self, data: st.DataObject, caller: Caller) -> AgentRecord | None:
        children = self.tree.children(caller.conversation_id)
        return data.draw(st.sampled_from(children)) if children else None

    # What agents and people ask for.

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        caller, prompt = self._caller(data), self._name()
        try:
            started = self.bench.start(by=caller, prompt=prompt, description="x")
        except Refused as error:
            assert error.refusal.code in ("capacity", "stopped", "too_deep", "too_many_agents")  # noqa: PT017
            return
        self.children[started.agent_id] = Child()
        self.sent[started.agent_id] = [prompt]
        self.delivered[started.agent_id] = []
        self.accepted.append(started.turn_id)
        assert self.bench.start(by=caller, prompt=prompt, description="x").turn_id == started.turn_id

    @rule(data=st.data())
    def send(self, data: st.DataObject) -> None:
        caller, content = self._caller(data), self._name()
        agent = self._child_of(data, caller)
        if agent is None:
            return
        try:
            sent = self.bench.send(agent.agent_id, content, by=caller)
        except Refused as error:
            assert error.refusal.code == "stopped"  # noqa: PT017
            return
        self.sent[agent.agent_id].append(content)
        assert self.bench.send(agent.agent_id, content, by=caller) == sent

    @rule(data=st.data(), speaks=st.booleans())
    def follow_up(self, data: st.DataObject, speaks: bool) -> None:
        caller = self._caller(data)
        if (agent := self._child_of(data, caller)) is not None:
            self._follow_up(agent, caller, self._name() if speaks else None)

    def _follow_up(self, agent: AgentRecord, caller: Caller, content: str | None) -> None:
        try:
            accepted = self.bench.follow_up(agent.agent_id, content, by=caller)
        except Refused as error:
            assert error.refusal.code in ("capacity", "stopped", "mailbox_empty")  # noqa: PT017
            return
        if content is not None:
            self.sent[agent.agent_id].append(content)
        if accepted.turn_id not in self.accepted:
            self.accepted.append(accepted.turn_id)
        assert self.bench.follow_up(agent.agent_id, content, by=caller) == accepted

    @rule(data=st.data(), waits=st.booleans())
    def read(self, data: st.DataObject, waits: bool) -> None:
        caller = self._caller(data)
        try:
            updates = self.bench.read(caller, key="k" if waits else "")
        except Refused as error:
            assert error.refusal.code == "stopped"  # noqa: PT017
            return
        read = [one.turn_id for one in updates.completions]
        held = [turn_id for turns in self.reading.values() for turn_id in turns]
        assert not set(read) & {*held, *self.was_read}
        if read:
            self.reading[caller.task_id] = read

    @rule(data=st.data())
    @precondition(lambda self: self.reading)
    def read_is_durable(self, data: st.DataObject) -> None:
        task_id = data.draw(st.sampled_from(sorted(self.reading)))
        self.was_read += self.reading.pop(task_id)
        self.tree.completions.read(task_id)

    @rule(data=st.data())
    @precondition(lambda self: self.children)
    def interrupt(self, data: st.DataObject) -> None:
        self.bench.interrupt(
            data.draw(st.sampled_from(sorted(self.children))), self.bench.caller(run=self.root_run + 1)
        )

    @rule(is_late=st.booleans())
    def stop_the_root(self, is_late: bool) -> None:
        self.root_run += 1
        self.bench.stopped(run=self.root_run - (2 if is_late else 1))

    # What becomes of orders.

    @rule(data=st.data())
    @precondition(lambda self: self.tree.due())
    def take(self, data: st.DataObject) -> None:
        order = self.tree.take(data.draw(st.sampled_from(self.tree.due())))
        self.taken[order.order_id] = order

    @rule(data=st.data())
    @precondition(lambda self: self._landing())
    def land(self, data: st.DataObject) -> None:
        """A submission is durable, and not acknowledged yet."""
        self._land(data.draw(st.sampled_from(self._landing())))

    def _landing(self) -> list[BeginTurn]:
        return [
            order
            for order in self.taken.values()
            if isinstance(order, BeginTurn) and order.request_id not in self.landed
        ]

    def _land(self, order: BeginTurn) -> None:
        self.landed.add(order.request_id)
        child = self.children[order.agent_id]
        is_new = not child.open
        child.land(order.request_id)
        if is_new and is_joined(order.agent_id, order.request_id):  # its turn may rest: the new run asks first
            child.rests, child.is_resting, child.awaits_grant = 1, True, True
            self.tree.wants(self.bench.notice(order.path, child.rests, run=child.run), NOW)
        assert order.messages
        assert (order.birth is None) == bool(self.delivered[order.agent_id])
        self.delivered[order.agent_id] += [message.text for message in order.messages]

    @rule(data=st.data(), fails=st.booleans(), times=st.integers(1, 2))
    @precondition(lambda self: self.taken)
    def acknowledge(self, data: st.DataObject, fails: bool, times: int) -> None:
        order = self.taken.pop(data.draw(st.sampled_from(sorted(self.taken))))
        self._acknowledge(order, fails=fails, times=times)

    @rule()
    @precondition(lambda self: self.tree.due())
    def carry_out(self) -> None:
        """All that is due goes well, or few conversations would ever begin."""
        for order in self.tree.due():
            self._acknowledge(self.tree.take(order), fails=False, times=1)

    def _acknowledge(self, order: Order, *, fails: bool, times: int) -> None:
        outcome: Begun | Aborted | Fetched | Looked | None = None
        if isinstance(order, BeginTurn):
            if order.request_id not in self.landed and not fails:
                self._land(order)
            outcome = Begun(failed="" if order.request_id in self.landed else "it cannot be")
        elif isinstance(order, AbortConversation):
            outcome = Aborted()
        elif isinstance(order, FetchTurn):
            outcome = Fetched()
        elif isinstance(order, LookAtCall):
            outcome = Looked(state="over" if fails else "open")
            if fails:
                self.reading.pop(order.task_id, None)
        elif isinstance(order, Grant):
            child = self.children[order.notice.conversation_id]
            if child.awaits_grant and order.notice.number == child.rests:
                child.is_resting = child.awaits_grant = False
        for _ in range(times):
            self.tree.done(order.order_id, outcome, NOW)

    # What conversations do.

    def _those(self, **wanted: bool) -> list[str]:
        return [
            agent_id
            for agent_id, child in self.children.items()
            if child.open and all(getattr(child, name) == value for name, value in wanted.items())
        ]

    @rule(data=st.data(), times=st.integers(1, 2))
    @precondition(lambda self: self._those(is_resting=False))
    def rest(self, data: st.DataObject, times: int) -> None:
        agent_id = data.draw(st.sampled_from(self._those(is_resting=False)))
        child = self.children[agent_id]
        child.rests, child.is_resting = child.rests + 1, True
        for _ in range(times):
            self.tree.rested(self.bench.notice(self.tree.agents[agent_id].path, child.rests, run=child.run), NOW)

    @rule(data=st.data(), times=st.integers(1, 2))
    @precondition(lambda self: self._those(is_resting=True))
    def want(self, data: st.DataObject, times: int) -> None:
        agent_id = data.draw(st.sampled_from(self._those(is_resting=True)))
        child = self.children[agent_id]
        child.awaits_grant = True
        for _ in range(times):
            self.tree.wants(self.bench.notice(self.tree.agents[agent_id].path, child.rests, run=child.run), NOW)

    @rule(data=st.data(), answers=st.booleans())
    @precondition(lambda self: self._ending())
    def settle(self, data: st.DataObject, answers: bool) -> None:
        agent_id = data.draw(st.sampled_from(self._ending()))
        self._settle(agent_id, answers=answers)

    def _ending(self) -> list[str]:
        """A run ends while it executes, or by a Stop."""
        return [
            agent_id for agent_id in self._those() if self.children[agent_id].executes or self._is_stopping(agent_id)
        ]

    def _is_stopping(self, agent_id: str) -> bool:
        turn = self.tree.agents[agent_id].turn
        return turn is not None and turn.is_stopping

    @rule(data=st.data())
    @precondition(lambda self: self._those())
    def stop_by_a_person(self, data: st.DataObject) -> None:
        """In the agent's own conversation: its tree hears of the end alone."""
        self._settle(data.draw(st.sampled_from(self._those())), answers=False)

    @rule(data=st.data())
    @precondition(lambda self: self._those(is_resting=True))
    def stop_by_a_person_while_its_parent_speaks(self, data: st.DataObject) -> None:
        agent = self.tree.agents[data.draw(st.sampled_from(self._those(is_resting=True)))]
        run = self.root_run if agent.parent_id == ROOT else self.children[agent.parent_id].run
        self._follow_up(agent, self.bench.caller(self.tree.path_of(agent.parent_id), run=run), self._name())
        self._settle(agent.agent_id, answers=False)

    def _settle(self, agent_id: str, *, answers: bool) -> None:
        child, path = self.children[agent_id], self.tree.agents[agent_id].path
        requests, child.open = child.open, []
        for request_id in [*requests, *requests]:
            reason = "" if answers else "aborted"
            self.bench.settle(path, "yes" if answers else None, request_id=request_id, reason=reason)

    @rule()
    @precondition(lambda self: self.tree.is_quiet)
    def turn_over(self) -> None:
        self.bench.tree = Tree.model_validate(self.tree.model_dump(mode="json"))

    # What holds at any time.

    @invariant()
    def no_message_is_lost_doubled_or_overtaken(self) -> None:
        for agent_id, sent in self.sent.items():
            delivered = self.delivered[agent_id]
            pending = [one.text.text for one in self.tree.agents[agent_id].mailbox.messages]
            assert delivered + [content for content in pending if content not in delivered] == sent

    @invariant()
    def every_accepted_turn_is_open_or_has_one_completion(self) -> None:
        agents = self.tree.agents.values()
        turns = [turn.turn_id for agent in agents for turn in (agent.turn, agent.next) if turn is not None]
        turns += [order.turn_id for order in self.tree.orders if isinstance(order, FetchTurn)]
        turns += [entry.completion.turn_id for box in self.tree.completions.boxes.values() for entry in box]
        assert sorted(turns + self.was_read) == sorted(self.accepted)

    @invariant()
    def no_more_turns_execute_than_there_are_permits(self) -> None:
        # What was submitted may land at any time, unless it joins a run.
        begins = {order.agent_id for order in self._landing() if not order.joins}
        executing = {agent_id for agent_id, child in self.children.items() if child.executes}
        assert len([agent_id for agent_id in begins | executing if not self._is_stopping(agent_id)]) <= LIMIT
        assert len(self.tree.permits.held) <= LIMIT

    @invariant()
    def whatever_executes_holds_a_permit_or_is_being_stopped(self) -> None:
        for agent_id, child in self.children.items():
            turn = self.tree.agents[agent_id].turn
            if child.executes and not self._is_stopping(agent_id):
                assert turn is not None
                assert turn.turn_id in self.tree.permits.held

    @invariant()
    def exactly_the_turns_that_may_execute_hold_a_permit(self) -> None:
        held: list[str] = []
        for agent in self.tree.agents.values():
            for turn in (agent.turn, agent.next):
                may_execute = turn is not None and turn.phase in ("granted", "starting", "running")
                # What is being stopped goes on with what it has, if anything.
                if turn is not None and (turn.turn_id in self.tree.permits.held if turn.is_stopping else may_execute):
                    held.append(turn.turn_id)
        assert sorted(self.tree.permits.held) == sorted(held)
        assert not (self.tree.permits.is_free and self.tree.permits.queued)

    @invariant()
    def top_level_agents_begin_in_the_order_in_which_they_were_started(self) -> None:
        for order in self.tree.orders:
            if isinstance(order, BeginTurn) and not order.joins and order.birth is None:
                self.first_begins.setdefault(order.turn_id, int(order.order_id))
        own = [agent.agent_id for agent in self.tree.agents.values() if agent.parent_id == ROOT]
        numbers = [self.first_begins[f"{one}.1"] for one in own if f"{one}.1" in self.first_begins]
        assert numbers == sorted(numbers)

    def teardown(self) -> None:
        """All that is under way comes to its end: nothing is held, claimed, queued or owed any more."""
        for _ in range(100):
            for order in self.tree.due():
                self.taken[order.order_id] = self.tree.take(order)
            for order in [*self.taken.values()]:
                del self.taken[order.order_id]
                self._acknowledge(order, fails=False, times=1)
            for agent_id in self._those():
                self._settle(agent_id, answers=True)
        assert [order for order in self.tree.orders if not isinstance(order, LookAtCall)] == []
        assert (self.tree.permits.held, self.tree.permits.queued) == ([], 0)
        for agent in self.tree.agents.values():
            assert (agent.turn, agent.next, agent.fetching) == (None, None, 0)
            assert agent.mailbox.unclaimed == len(agent.mailbox.messages)
        self.every_accepted_turn_is_open_or_has_one_completion()


TestGrowing = Growing.TestCase
TestGrowing.settings = settings(max_examples=80, stateful_step_count=50, deadline=None)
