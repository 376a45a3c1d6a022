"""What the world and a task's own code may ask of it, whether a tool call or a durable task of an application.

Nothing here waits for long and nothing raises but for its sender: validators refuse, handlers take (spec §3.3).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from signals.box import BoxFull, Delivery, KeyState, Receipt
from signals.tokens import SignalKey
from tarry.core import task as machine
from tarry.core.gates import REASK
from tarry.core.protocol import (
    ABORT,
    ANNOUNCE,
    CONFLICT,
    DUPLICATE,
    IS_CURRENT,
    MEMO,
    NOT_HELD,
    RETRY,
    STALE,
    TASK_FULL,
    AnnounceInput,
    MemoInput,
)
from tarry.core.subagents.run_permit import GO_ON
from tarry.core.waiting import (
    CHILD_END,
    CREATE_CHILD,
    DELIVER,
    ENDED,
    NOTIFIED,
    NOTIFY_MEMO,
    RECEIPTS,
    SIGNAL_STATE,
    TASK,
    WATCH,
    AbortInput,
    ChildEnd,
    CreateChild,
    TaskState,
    TaskView,
)
from workflows.ends import read_signal
from workflows.task import watching
from workflows.task.children import MAX_ID, child_id, fingerprint
from workflows.task.loop import Loop
from workflows.task.port import MAX_UPDATES

MAX_CHILDREN = 256


class Durable(Loop):
    """A task with its doors; a workflow derives from it."""

    _takes_signals = True

    @abstractmethod
    def _view(self) -> TaskView: ...

    def _viewed(self, conversation_id: str, tool: str, arguments: dict[str, Any]) -> TaskView:
        state, park = self._state, self._state.park
        return TaskView(
            task_id=workflow.info().workflow_id,
            conversation_id=conversation_id,
            tool=tool,
            arguments=arguments,
            state=self._status(),
            held=self._holder.why,
            since=park.since if park else None,
            until=park.until if park else None,
            keys=park.keys if park else (),
            on=park.on if park else (),
            ask=park.ask if park else None,
            checkpoint=state.checkpoint,
            wake=str(state.wake) if state.wake else "",
            intent=state.intent,
            receipts=tuple(self._box.known_receipts()),
        )

    def _status(self) -> TaskState:
        if self._port.is_closed:
            return "over"
        if self._holder.why:
            return "held"
        if self._state.park is None:
            return "running"
        if self._state.phase == "call":
            return "gated"
        return "waiting" if self._state.park.on else "sleeping"

    @workflow.update(name=MEMO)
    def memo(self, input: MemoInput) -> Any:
        """Store a memo, first writer wins (spec §4.6)."""
        self._port.updates += 1
        return self._box.memo(input.key, input.value)

    @memo.validator
    def _check_memo(self, input: MemoInput) -> None:
        if machine.is_stale(self._state, input.run, input.attempt):
            raise ApplicationError("a newer run of this call took over", type=STALE)
        if input.key in self._box.memos:
            raise ApplicationError("the key holds a value", self._box.memos[input.key], type=DUPLICATE)
        if len(self._box.memos) >= MAX_UPDATES or self._port.updates >= MAX_UPDATES:
            raise ApplicationError(f"a call holds at most {MAX_UPDATES} memos", type=TASK_FULL)
        try:
            self._box.check(input.key, input.value)
        except BoxFull as error:
            raise ApplicationError(str(error), type=TASK_FULL) from error

    @workflow.update(name=CREATE_CHILD)
    async def create_child(self, input: CreateChild) -> str:
        """Create a child, one a key (spec §4.9)."""
        self._port.updates += 1
        return await self._children.create(input, self._view().conversation_id)

    @create_child.validator
    def _check_create_child(self, input: CreateChild) -> None:
        if self._port.is_closed or machine.is_stale(self._state, input.run, input.attempt):
            raise ApplicationError("a newer run of this task took over, or it is over", type=STALE)
        known = self._children.find(input.key)
        if known is not None and known.digest != fingerprint(input):
            raise ApplicationError(f"key {input.key!r} was used for another task or input", type=CONFLICT)
        if known is not None:
            raise ApplicationError("known key", known.task_id, type=DUPLICATE)
        if len(self._state.children) >= MAX_CHILDREN:
            raise ApplicationError(f"a task creates at most {MAX_CHILDREN} others", type=TASK_FULL)
        if len(child_id(input.key).encode()) > MAX_ID:
            raise ApplicationError("tasks are nested too deeply here", type=TASK_FULL)

    @workflow.update(name=ANNOUNCE)
    def announce(self, input: AnnounceInput) -> None:
        """A rerun takes over: whatever an earlier one still says is refused (spec §4.6)."""
        machine.announce(self._state, input.run, input.attempt)

    @announce.validator
    def _check_announce(self, input: AnnounceInput) -> None:
        if machine.is_stale(self._state, input.run, input.attempt):
            raise ApplicationError("a newer run of this call took over", type=STALE)

    @workflow.query(name=IS_CURRENT)
    def is_current(self, input: AnnounceInput) -> bool:
        """Whether a run may still act: what goes to others passes no door of this one (spec §4.6)."""
        return not machine.is_stale(self._state, input.run, input.attempt)

    @workflow.update(name=RETRY)
    def retry(self) -> None:
        """Let a held task run again (spec §4.4)."""
        self._holder.release()

    @retry.validator
    def _check_retry(self) -> None:
        if not self._holder.why:
            raise ApplicationError("nothing is held here", type=NOT_HELD)

    @workflow.update(name=DELIVER)
    async def deliver(self, delivery: Delivery) -> Receipt:
        """Take a value from the world; the receipt says what became of it (spec §3.2)."""
        return await self._port.deliver(delivery)

    @deliver.validator
    def _check_deliver(self, delivery: Delivery) -> None:
        self._port.check(delivery)

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        """Temporal signals by name, from any shell: those of ours, and the signals that the application declares."""
        self._port.count_signal()
        if name == RETRY:
            self._holder.release()
        elif name == ABORT:
            told = read_signal(args, AbortInput)
            self._stop.set(told.deadline if told else None)
        elif name == REASK:
            self._take_reask(args)
        elif name == WATCH:
            watching.take_watcher(self._state, args)
        elif name == ENDED:
            watching.take_end(self._state, args)
        elif name == GO_ON:
            self._leave.take(args)
        elif self._takes_signals:
            self._port.receive(name, args)

    def _take_reask(self, args: Sequence[RawValue]) -> None:
        state, current = self._state, read_signal(args, str)
        if state.phase != "call" or current is None:
            return
        state.announced = current
        if state.park is not None:
            state.reask = current != state.asked_under

    @workflow.query(name=SIGNAL_STATE)
    def signal_state(self, key: SignalKey) -> KeyState:
        """What a key holds (spec §3.10)."""
        return self._box.state(key)

    @workflow.query(name=CHILD_END)
    def child_end(self, task_id: str) -> ChildEnd:
        """What became of a child (spec §4.9)."""
        return self._state.child_end(task_id)

    @workflow.query(name=NOTIFIED)
    def notified(self) -> dict[str, Any]:
        """Which submissions it is told of, by the key that it is told under (spec §7.2)."""
        prefix = NOTIFY_MEMO
        return {key.removeprefix(prefix): told for key, told in self._box.memos.items() if key.startswith(prefix)}

    @workflow.query(name=RECEIPTS)
    def receipts(self) -> list[Receipt]:
        """What became of the deliveries that entered history, as far as it is still known (spec §3.4)."""
        return self._box.known_receipts()

    @workflow.query(name=TASK)
    def task(self) -> TaskView:
        """Where the task stands."""
        return self._view()
