"""What a tree knows of one agent, and of a turn of it (spec §17.6). Pure."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from tarry.core.ledger import Ledger
from tarry.core.settled import Settled
from tarry.core.subagents.definition import RuntimeMode
from tarry.core.subagents.mailbox import Mailbox
from tarry.core.subagents.orders import Birth
from tarry.core.subagents.protocol import run_number

Phase = Literal["queued", "granted", "starting", "running", "resting", "waking"]
"""`granted`: it may execute, and waits for the turn before it to end. `waking`: it waits for a permit to go on."""

MAX_UNDELIVERED = 16
"""Turns that are named whose completions could not be given to the parent; all are counted."""


class Turn(BaseModel):
    """One turn of an agent: one or more submissions to its conversation, under one permit, with one completion."""

    turn_id: str
    phase: Phase = "queued"
    mode: RuntimeMode
    open: list[str] = Field(default_factory=list, description="request ids that have not settled")
    requests: int = Field(default=1, description="how many there were")
    end: Settled | None = Field(default=None, description="of the newest request that has settled")
    end_number: int = 0
    is_stopping: bool = False
    since: datetime
    generation_id: str = Field(default="", description="the newest run of it that has told of itself")
    rest: int = Field(default=0, description="number of the newest rest of that run")
    wanted: int = Field(default=0, description="of the newest rest that something woke it from")
    waits_for: str = ""
    output: dict[str, Any] | None = Field(default=None, description="JSON Schema of its answer; None: text")

    @property
    def has_begun(self) -> bool:
        """Whether its submission was ordered."""
        return self.phase not in ("queued", "granted")

    def add_request(self) -> str:
        """One more submission joins it; its request id."""
        self.requests += 1
        self.open.append(f"{self.turn_id}.{self.requests}")
        return self.open[-1]

    def settle(self, settled: Settled) -> None:
        """A request of it is over; the end of the newest one is the end of the turn."""
        self.open.remove(settled.request_id)
        number = request_number(self.turn_id, settled.request_id)
        if number > self.end_number:
            self.end, self.end_number = settled, number

    def sees(self, generation_id: str) -> bool:
        """Take note of a run of the turn; False: a later one has told of itself."""
        if generation_id != self.generation_id:
            if run_number(generation_id) < run_number(self.generation_id):
                return False
            self.generation_id, self.rest, self.wanted = generation_id, 0, 0
        return True


class AgentRecord(BaseModel):
    """An agent. `turn` is the open one; `next`: one that was asked for while that one was being stopped."""

    agent_id: str
    path: str
    parent_id: str
    definition: str
    description: str = ""
    mode: RuntimeMode
    started_by: str = Field(description="the call that started it")
    content: str = Field(description="digest of what that call asked for")
    birth: Birth | None = Field(default=None, description="None: its conversation is there")
    mailbox: Mailbox = Field(default_factory=Mailbox)
    turn: Turn | None = None
    next: Turn | None = None
    turns: int = 0
    fetching: int = Field(default=0, description="turns that have ended, and whose answer is being looked up")
    ended: int = Field(default=0, description="turns of which there was a completion")
    asked_run: int = Field(default=0, description="the newest run that asked for its newest turn; 0: a person did")
    seen_run: int = Field(default=0, description="the highest number of a run of its own that was seen")
    ended_run: int = Field(default=0, description="the highest number of a run of a turn that is over")
    undelivered: int = 0
    undelivered_turns: list[str] = Field(default_factory=list)
    corrupt: str = ""
    since: datetime
    spent: Ledger = Ledger()

    @property
    def newest(self) -> Turn | None:
        """The turn that was asked for last, unless it is over."""
        return self.next or self.turn

    def new_turn(self, mode: RuntimeMode, asked_run: int, now: datetime) -> Turn:
        """A turn after all others."""
        self.turns += 1
        turn_id = f"{self.agent_id}.{self.turns}"
        turn = Turn(turn_id=turn_id, mode=mode, open=[turn_id], since=now)
        self.asked_run = asked_run
        if self.turn is None:
            self.turn = turn
        else:
            self.next = turn
        return turn

    def could_not_deliver(self, turn_id: str) -> None:
        """The parent has no room for the completion of that turn."""
        self.undelivered += 1
        self.undelivered_turns = [*self.undelivered_turns, turn_id][-MAX_UNDELIVERED:]


def request_number(turn_id: str, request_id: str) -> int:
    """Which request of its turn it is, from 1."""
    number = request_id.removeprefix(turn_id).removeprefix(".")
    return int(number) if number else 1
