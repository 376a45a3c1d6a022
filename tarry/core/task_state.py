"""What a task is started with, what it carries from run to run, and how it ends.

Pure. All of it is JSON: it stands in histories, and parked work outlives deploys (spec §3.11).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel, Field

from signals.box import Box
from signals.parking import Park, Wake
from tarry.core.decisions import Decided
from tarry.core.ledger import Ledger, spent_in
from tarry.core.messages import Frozen
from tarry.core.protocol import OutcomeCode, ResolvedCall, RunSettings
from tarry.core.resolve import HookKind
from tarry.core.results import Diagnostic
from tarry.core.text import canonical_json
from tarry.core.waiting import ChildEnd

MAX_KEPT_BYTES = 256 * 1024
"""Of the outcomes of children that their owner keeps; further ones stay with the children."""


class Child(BaseModel):
    """A task that this one created, under one of its keys; `digest` is of its kind and input (spec §4.9)."""

    task_id: str
    digest: str
    is_over: bool = False
    failed: bool = False
    elsewhere: bool = False
    outcome: Any = None


class State(BaseModel):
    """Where a task stands.

    `phase` is `call` until its hooks have let it pass, with the `arguments` that count from then on.
    `run` is the number of the first run of the newest scheduling; `attempt` counts within it, and is the newest that
    announced itself. `intent` counts the first run and one for each wake; `first_run` is the number of its first run.
    `published` is what runs of this intent that were cut off had published, None while none was. `wake` and
    `checkpoint` are those of the newest park that was woken; `park` is set while it is parked. `children` are the
    tasks it created, by key.
    """

    phase: Literal["call", "execute"] = "execute"
    arguments: dict[str, Any] | None = None
    asked_under: str = Field(default="", description="fingerprint of the registry whose hooks were asked last")
    announced: str = Field(default="", description="fingerprint of the registry that became current since then")
    reask: bool = Field(default=False, description="the registry has changed since")
    heard: HookKind = Field(default="", description="which hooks of the registry asked last hear of the result")
    remarks: tuple[Diagnostic, ...] = Field(default=(), description="of the hooks that were asked last")
    run: int = 1
    attempt: int = 1
    not_here: int = 0
    published: str | None = None
    intent: int = 1
    first_run: int = 1
    wake: Wake | None = None
    checkpoint: Any = None
    park: Park | None = None
    children: dict[str, Child] = Field(default_factory=dict)
    others: dict[str, bool | None] = Field(
        default_factory=dict, description="other tasks that it watches: whether each failed, None while it lives"
    )
    spent: Ledger = Field(default=Ledger(), description="that it reported, and its children")
    watchers: list[str] = Field(default_factory=list, description="tasks that want to know when this one is over")
    worker: str | None = Field(default=None, description="where its code has moved to; None: it is where its call says")
    decided: tuple[Decided, ...] = Field(default=(), description="by people, the newest, oldest first")
    rests: bool = Field(default=False, description="its run was told that it rests, and is asked before it goes on")

    @property
    def ended(self) -> dict[str, bool]:
        """The tasks that are over, of its children and of others that it watches, and whether each failed."""
        children = {child.task_id: child.failed for child in self.children.values() if child.is_over}
        return children | {task_id: failed for task_id, failed in self.others.items() if failed is not None}

    def is_child(self, task_id: str) -> bool:
        """Whether it created that task."""
        return any(child.task_id == task_id for child in self.children.values())

    def end_child(self, key: str, outcome: Any, *, failed: bool) -> None:
        """A child came to its end, with an outcome as JSON data."""
        child = self.children[key]
        self.spent = self.spent + spent_in(outcome)
        kept = sum(_size(other.outcome) for other in self.children.values() if other.outcome is not None)
        child.is_over, child.failed = True, failed
        child.elsewhere = kept + _size(outcome) > MAX_KEPT_BYTES
        child.outcome = None if child.elsewhere else outcome

    def child_end(self, task_id: str) -> ChildEnd:
        """What is known of a child."""
        for child in self.children.values():
            if child.task_id == task_id:
                return ChildEnd(
                    is_over=child.is_over, failed=child.failed, elsewhere=child.elsewhere, outcome=child.outcome
                )
        return ChildEnd(is_known=False)

    @property
    def has_parked(self) -> bool:
        """Whether it has outside work that may be live while none of its code runs (spec §4.8)."""
        return self.phase == "execute" and (self.park is not None or self.intent > 1)


class Carry(BaseModel):
    """What a task takes along when it continues as new. `started`: when its first run did."""

    state: State
    box: Box
    started: datetime


class TaskInput(Frozen):
    """A durable task to run. `call.tool` names it, `call.arguments` holds its `input`."""

    conversation_id: str
    call: ResolvedCall
    settings: RunSettings
    carry: Carry | None = None
    tree: str = Field(default="", description="that its conversation is a subagent of; empty: a root, or none")
    permit_of: str = Field(default="", description="the run whose permit it goes on by; empty: it needs none")


class TaskOutcome(Frozen):
    """How a durable task ended: with its `result` as JSON data, or with the `error` that a person reads."""

    status: Literal["completed", "failed", "aborted"]
    result: Any = None
    error: str = ""
    code: OutcomeCode = ""
    spent: Ledger = Ledger()


class ToolCallInput(Frozen):
    """One call to run, with the settings its run is pinned to."""

    conversation_id: str
    generation_id: str
    call: ResolvedCall
    settings: RunSettings
    carry: Carry | None = None
    nested: bool = Field(default=False, description="its caller is a task, which reads structured output")
    takes_signals: bool = Field(default=False, description="False: begun before calls could be delivered to")
    judged_by_pass: bool = Field(
        default=False, description="False: begun before one activity judged what came at its gates and asked them"
    )
    tree: str = Field(default="", description="that its conversation is a subagent of; empty: a root, or none")
    permit_of: str = Field(default="", description="the run whose permit it goes on by; empty: it needs none")


def _size(outcome: Any) -> int:
    """Bytes as JSON, however deep it is nested: a result that is as deep as any may be lies deeper in its outcome."""
    return len(canonical_json(outcome).encode())
