"""Trees of agents without a server: requests in few words, and orders carried out by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count

from tarry.core.settled import Settled
from tarry.core.subagents.definition import AgentDefinition, RuntimeMode, Snapshot, SubagentSettings
from tarry.core.subagents.orders import AbortConversation, Aborted, BeginTurn, Begun, Fetched, FetchTurn, Order, Outcome
from tarry.core.subagents.protocol import (
    Caller,
    FollowUp,
    Interrupt,
    Interrupted,
    ReadDone,
    ReadUpdates,
    SendMessage,
    Sent,
    StartAgent,
    Started,
    StopBelow,
    Text,
    TurnAccepted,
    TurnNotice,
    Updates,
)
from tarry.core.subagents.refusing import Refused
from tarry.core.subagents.tree import Tree

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ROOT = "chat"
TREE = "chat~n/agents"
LIMIT = 4


def text(content: str) -> Text:
    """A text as a client sends it: over 1 KiB by reference."""
    size = len(content.encode())
    inline = size <= 1_024
    return Text(text=content if inline else "", blob="" if inline else "ref", characters=len(content), utf8_bytes=size)


class Bench:
    """A tree, and short ways to ask it. Calls are numbered, unless a test names them."""

    def __init__(self, limit: int = LIMIT, mode: RuntimeMode = "background", depth: int = 3, agents: int = 256) -> None:
        settings = SubagentSettings(max_concurrent_runs=limit, runtime_mode=mode, max_depth=depth, max_agents=agents)
        snapshot = Snapshot(definitions=(AgentDefinition(name="scout", description="looks"),), settings=settings)
        self.tree = Tree.begin(TREE, ROOT, snapshot)
        self.numbers = count(1)

    def id(self, path: str) -> str:
        """The conversation at a path."""
        return ROOT if path == "/root" else self.tree.paths.agents[path]

    def caller(self, path: str = "/root", call: str = "", run: int = 1) -> Caller:
        """A call of the agent at `path`; run 0: a person."""
        conversation = self.id(path)
        place = f"g{run}" if run else "person"
        return Caller(
            conversation_id=conversation, task_id=f"{conversation}~n/{place}/{call or f't{next(self.numbers)}.0'}"
        )

    def start(
        self, name: str | None = None, *, by: Caller | None = None, prompt: str = "go", **fields: object
    ) -> Started:
        data = {"caller": by or self.caller(), "definition": "scout", "task_name": name, "prompt": text(prompt)}
        return self.tree.start(StartAgent.model_validate({**data, **fields}), NOW)

    def send(self, target: str, content: str = "m", by: Caller | None = None) -> Sent:
        return self.tree.send(SendMessage(caller=by or self.caller(), target=target, text=text(content)), NOW)

    def follow_up(self, target: str, content: str | None = None, by: Caller | None = None) -> TurnAccepted:
        said = None if content is None else text(content)
        return self.tree.follow_up(FollowUp(caller=by or self.caller(), target=target, text=said), NOW)

    def read(self, by: Caller | None = None, *, target: str = "", key: str = "") -> Updates:
        return self.tree.read(ReadUpdates(caller=by or self.caller(), target=target, key=key), NOW)

    def read_done(self, by: Caller) -> None:
        self.tree.read_done(ReadDone(task_id=by.task_id))

    def interrupt(self, target: str, by: Caller | None = None, key: str = "") -> Interrupted:
        return self.tree.interrupt(Interrupt(caller=by or self.caller(), target=target, key=key), NOW)

    def stopped(self, path: str = "/root", run: int = 1) -> None:
        self.tree.stopped(StopBelow(conversation_id=self.id(path), run=run), NOW)

    def notice(self, path: str, number: int, run: int = 1, waits_for: str = "") -> TurnNotice:
        conversation = self.id(path)
        return TurnNotice(
            conversation_id=conversation, generation_id=f"{conversation}~n/g{run}", number=number, waits_for=waits_for
        )

    def rested(self, path: str, number: int = 1) -> None:
        self.tree.rested(self.notice(path, number), NOW)

    def wants(self, path: str, number: int = 1) -> None:
        self.tree.wants(self.notice(path, number), NOW)

    def settle(self, path: str, answer: str | None = "done", *, request_id: str = "", **fields: object) -> None:
        """The newest submission to the agent has ended."""
        agent = self.tree.agents[self.id(path)]
        assert request_id or agent.turn is not None
        data = {
            "conversation_id": agent.agent_id,
            "request_id": request_id or (agent.turn.open[-1] if agent.turn else ""),
            "status": "done" if answer is not None else "unanswered",
            "answer": 1 if answer is not None else None,
            "answer_text": answer,
        }
        self.tree.settled(Settled.model_validate({**data, **fields}), NOW)

    def end(self, path: str, answer: str | None = "done", reason: str = "", detail: str = "") -> None:
        """The turn of the agent ends, and its completion gets to its parent."""
        self.work()
        self.settle(path, answer, reason=reason, detail=detail)
        self.work()

    def work(self) -> list[Order]:
        """Carry out all orders, as if all went well; what was done, in order."""
        carried: list[Order] = []
        while due := self.tree.due():
            for order in due:
                carried.append(self.tree.take(order))
                self.tree.done(order.order_id, _went_well(order), NOW)
        return carried

    def state(self, path: str) -> str:
        return next(row.state for row in self.tree.listing().agents if row.path == path)


def _went_well(order: Order) -> Outcome:
    if isinstance(order, BeginTurn):
        return Begun()
    if isinstance(order, AbortConversation):
        return Aborted()
    if isinstance(order, FetchTurn):
        return Fetched(text=text(order.answer_text) if order.answer_text else None)
    return None


def refusal(ask: Callable[[], object]) -> str:
    """The code with which something was refused; empty: it was not."""
    try:
        ask()
    except Refused as error:
        return error.refusal.code
    return ""
