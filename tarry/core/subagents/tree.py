"""A tree of agents: what it is asked, and what it answers (spec §17).

Pure: time comes in as `now`. The whole state is carried from run to run of its workflow. A request that is refused
changes nothing; one that comes again, from the same call, is answered as it was.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Self

from pydantic import ValidationError

from tarry.core.output import OutputSchema
from tarry.core.protocol import digest
from tarry.core.subagents.answers import check_same, content
from tarry.core.subagents.completions import Waiter
from tarry.core.subagents.definition import RuntimeMode, Snapshot
from tarry.core.subagents.listing import list_agents, working_row
from tarry.core.subagents.mailbox import Mailbox
from tarry.core.subagents.orders import Birth, TellRoot
from tarry.core.subagents.paths import depth, is_below
from tarry.core.subagents.permits import Permits
from tarry.core.subagents.protocol import (
    AGENT_ID,
    AgentList,
    Caller,
    FollowUp,
    ReadDone,
    ReadUpdates,
    Reported,
    SendMessage,
    Sent,
    StartAgent,
    Started,
    TurnAccepted,
    Updates,
)
from tarry.core.subagents.record import AgentRecord, Turn
from tarry.core.subagents.refusing import Refused
from tarry.core.subagents.stopping import Stops


class Tree(Stops):
    """The agents below one root conversation."""

    @classmethod
    def begin(cls, tree_id: str, root: str, snapshot: Snapshot) -> Self:
        """A tree without agents."""
        permits = Permits(limit=snapshot.settings.max_concurrent_runs)
        return cls(tree_id=tree_id, root=root, snapshot=snapshot, permits=permits)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is under way that only this run of the workflow would hear of."""
        return not any(order.is_taken for order in self.orders)

    # Starting and writing.

    def start(self, request: StartAgent, now: datetime) -> Started:
        """A new child of the caller, with its first turn.

        Raises:
            Refused: and there is no such child.
        """
        if (known := self._started_by(request)) is not None:
            return _started(known)
        parent = self.check_caller(request.caller)
        definition = self.snapshot.find(request.definition)
        if definition is None:
            names = ", ".join(one.name for one in self.snapshot.definitions) or "there are none"
            raise Refused("unknown_agent", f"there is no agent {request.definition[:80]!r}; known: {names}")
        self._check_number(parent)
        path = self.paths.name(parent, request.task_name, request.description)
        Mailbox().check(request.prompt)
        _check_output(request.output)
        mode = self._mode(request)
        self.check_permit(request.caller, mode)
        agent = AgentRecord(
            agent_id=AGENT_ID + digest(self.tree_id + path),
            path=path,
            parent_id=request.caller.conversation_id,
            definition=definition.name,
            description=request.description[:MAX_DESCRIPTION],
            mode=mode,
            started_by=request.caller.task_id,
            content=content(request),
            birth=Birth(
                caller=request.caller,
                definition=definition,
                description=request.description[:MAX_DESCRIPTION],
                context=request.context,
                agent=request.agent,
                output=request.output,
            ),
            since=now,
        )
        self.saw(request.caller)
        self._introduce(agent, now)
        agent.mailbox.put(request.prompt)
        self.ask(agent, mode, request.caller, now)
        if request.key:
            self.completions.wait(_waiter(request.caller, request.key, path))
        return _started(agent)

    def _started_by(self, request: StartAgent) -> AgentRecord | None:
        task_id = request.caller.task_id
        if (known := self.started_by(task_id)) is not None:
            check_same(known.content, content(request), task_id)
        return known

    def _check_number(self, parent: str) -> None:
        settings = self.snapshot.settings
        if depth(parent) >= settings.max_depth:
            raise Refused("too_deep", f"{parent} is at depth {depth(parent)} of {settings.max_depth}: do it yourself")
        if len(self.agents) >= settings.max_agents:
            raise Refused(
                "too_many_agents",
                f"there were {settings.max_agents} agents, which is all that one conversation may have: "
                "use those that are there",
            )

    def _mode(self, request: StartAgent) -> RuntimeMode:
        parent = self.agents.get(request.caller.conversation_id)
        asking = parent.turn.mode if parent is not None and parent.turn is not None else None
        return request.mode or asking or self.snapshot.settings.runtime_mode

    def _introduce(self, agent: AgentRecord, now: datetime) -> None:
        if not self.agents:
            self.ordered.give(TellRoot(lane="root", conversation_id=self.root, tree_id=self.tree_id))
        self.introduce(agent)
        self.events.add("start", agent.path, now, detail=agent.definition)

    def send(self, request: SendMessage, now: datetime) -> Sent:
        """One more message in the mailbox of a child; it starts nothing.

        Raises:
            Refused: and it is not there.
        """
        task_id = request.caller.task_id
        if (known := self.answers.find("send", task_id, request)) is not None:
            return Sent.model_validate(known)
        self.check_caller(request.caller)
        agent = self.child(request.caller, request.target)
        agent.mailbox.check(request.text)
        number = agent.mailbox.put(request.text)
        self.saw(request.caller)
        self.events.add("message", agent.path, now, detail=f"from {self.name_of(request.caller)}")
        sent = Sent(message_id=f"{agent.agent_id}.m{number}", pending=len(agent.mailbox.messages), path=agent.path)
        self.answers.keep("send", task_id, request, sent)
        return sent

    def follow_up(self, request: FollowUp, now: datetime) -> TurnAccepted:
        """One turn of a child with all that waits in its mailbox; a turn that is open takes it up.

        Raises:
            Refused: and no message is claimed, none put there.
        """
        task_id = request.caller.task_id
        if (known := self.answers.find("follow-up", task_id, request)) is not None:
            return TurnAccepted.model_validate(known)
        self.check_caller(request.caller)
        agent = self.child(request.caller, request.target)
        open_turn = agent.newest if agent.newest is not None and not agent.newest.is_stopping else None
        self._check_follow_up(agent, open_turn, request)
        self.saw(request.caller)
        if request.text is not None:
            agent.mailbox.put(request.text)
        messages = agent.mailbox.unclaimed
        state: Literal["running", "queued", "joined"] = "joined"
        if open_turn is not None:
            turn = open_turn
            self.join(agent, turn, request.caller)
            if not turn.has_begun:
                state = "queued"
        else:
            turn = self.ask(agent, self.snapshot.settings.runtime_mode, request.caller, now)
            state = _begins(turn)
        accepted = TurnAccepted(
            path=agent.path, agent_id=agent.agent_id, turn_id=turn.turn_id, messages=messages, state=state
        )
        self.answers.keep("follow-up", task_id, request, accepted)
        return accepted

    def _check_follow_up(self, agent: AgentRecord, open_turn: Turn | None, request: FollowUp) -> None:
        if request.text is not None:
            agent.mailbox.check(request.text)
        elif not agent.mailbox.unclaimed:
            raise Refused("mailbox_empty", f"no message waits for {agent.path}: send one first, or say something here")
        if open_turn is not None:
            return
        mode = self.snapshot.settings.runtime_mode
        if mode == "foreground":
            raise Refused(
                "foreground", f"{agent.path} has ended, and no agent goes on while runtime_mode is foreground"
            )
        self.check_permit(request.caller, mode)

    # Reading.

    def read(self, request: ReadUpdates, now: datetime) -> Updates:
        """What children of the caller have ended and nobody has read; it is the caller's until it is over.

        Raises:
            Refused: and nothing is reserved.
        """
        caller = request.caller
        self.check_caller(caller)
        path = self._read_target(request)
        self.saw(caller)
        parent_id = caller.conversation_id
        completions = self.completions.reserve(parent_id, caller.task_id, path)
        if path and any(completion.path != path for completion in completions):
            raise Refused("conflict", f"the call {caller.task_id} has read other agents before: make a new call")
        children = [agent for agent in self.children(parent_id) if path in ("", agent.path)]
        for reader in self.completions.readers(parent_id):
            if reader != caller.task_id:
                self.look_at(reader)
        self.completions.waiters.pop(caller.task_id, None)
        if request.key and not completions:
            self.completions.wait(_waiter(caller, request.key, path))
        working = [agent for agent in children if self.is_working(agent)]
        was_read = self._were_read(parent_id, children)
        return Updates(
            completions=completions,
            more=self.completions.left(parent_id, path),
            held=self.completions.held(parent_id, caller.task_id, path),
            working=tuple(working_row(self, agent) for agent in working[:NAMED]),
            more_working=len(working[NAMED:]),
            already_read=tuple(was_read[:NAMED]),
            more_already_read=len(was_read[NAMED:]),
        )

    def _read_target(self, request: ReadUpdates) -> str:
        if not request.target:
            return ""
        base = self.path_of(request.caller.conversation_id)
        path = self.paths.find(request.target, base)
        if path == base or is_below(base, path):
            raise Refused("not_a_child", f"{base} works for {path}: waiting for it would be waiting in a circle")
        agent = self.agents[self.paths.agents[path]]
        if agent.parent_id != request.caller.conversation_id:
            raise Refused("not_a_child", f"{path} is no child of {base}: its parent reads what it ends")
        return path

    def _were_read(self, parent_id: str, children: list[AgentRecord]) -> list[str]:
        """The paths of children that work no more, and all of whose ends were read."""
        unread = self.completions.unread_paths(parent_id)
        return [
            agent.path
            for agent in children
            if agent.ended > agent.undelivered and not self.is_working(agent) and agent.path not in unread
        ]

    def read_done(self, done: ReadDone) -> None:
        """What a call has reserved is in its result."""
        self.was_read(done.task_id)

    # The rest.

    def reported(self, report: Reported, now: datetime) -> None:
        """An agent has reported; a repeat by the same call changes nothing.

        Raises:
            Refused: `conflict`.
        """
        caller = report.caller
        agent = self.agents.get(caller.conversation_id)
        if agent is not None and self.answers.find("report", caller.task_id, report) is None:
            self.answers.keep("report", caller.task_id, report, report)
            self.events.add("report", agent.path, now, detail=f"to {agent.path.rpartition('/')[0]}")

    def reload(self, snapshot: Snapshot, now: datetime) -> None:
        """Another catalogue and other settings count from now on; what executes goes on."""
        self.snapshot = snapshot
        self.permits.limit = snapshot.settings.max_concurrent_runs
        self.events.add("reload", self.path_of(self.root), now)
        self.advance(now)

    def listing(self, conversation_id: str = "") -> AgentList:
        """All agents below a conversation.

        Raises:
            Refused: it is none of this tree.
        """
        return list_agents(self, self.path_of(conversation_id))


MAX_DESCRIPTION = 500
NAMED = 16
"""Agents that an answer to a call that reads names of those that work, and of those that were read; all are counted.

Who waits for hundreds asks hundreds of times, and its model reads each answer."""


def _check_output(schema: dict[str, Any] | None) -> None:
    try:
        OutputSchema(name="answer", json_schema=schema or {})
    except ValidationError as error:
        raise Refused("invalid", error.errors()[0]["msg"]) from None


def _waiter(caller: Caller, key: str, path: str) -> Waiter:
    return Waiter(task_id=caller.task_id, key=key, parent_id=caller.conversation_id, path=path)


def _begins(turn: Turn) -> Literal["running", "queued"]:
    return "queued" if turn.phase == "queued" else "running"


def _started(agent: AgentRecord) -> Started:
    first = f"{agent.agent_id}.1"
    queued = agent.turn is not None and agent.turn.turn_id == first and agent.turn.phase == "queued"
    return Started(
        path=agent.path,
        agent_id=agent.agent_id,
        turn_id=first,
        state="queued" if queued else "running",
        mode=agent.mode,
    )
