"""The run of a conversation that is under way, and what it is called.

Pure.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from tarry.core.inbox import Queued
from tarry.core.messages import Frozen
from tarry.core.protocol import RunResult
from tarry.core.run_settings import RunSettings
from tarry.core.subagents.protocol import is_joined
from tarry.core.transcript import Position


def generation_id(conversation_id: str, nonce: str, run: int) -> str:
    """The workflow id of a run: never the same for two conversations, also under one id (spec §1.2)."""
    return f"{conversation_id}~{nonce}/g{run}"


def run_of(task_id: str) -> tuple[str, int | None]:
    """The nonce of the conversation in which a call was made, and the number of its run; None: it is of no run."""
    conversation, _, rest = task_id.partition("/")
    number = rest.partition("/")[0].partition("~")[0].removeprefix("g")
    return conversation.partition("~")[2], int(number) if number.isdecimal() else None


def asks_first(conversation_id: str, inputs: Sequence[Queued], *, may_rest: bool) -> bool:
    """Whether a run for these inputs of a turn may begin while that has no permit (spec §17.12).

    It has none when they were to join a run that has ended since; or, `may_rest`, when a run before it was stopped that
    may have given the turn's permit back. Else the input that begins a turn comes with the permit (spec §17.4).
    """
    ids = [item.request_id for item in inputs if item.request_id.startswith(f"{conversation_id}.")]
    return bool(ids) and (may_rest or any(is_joined(conversation_id, request_id) for request_id in ids))


class OpenRun(Frozen):
    """The run that is under way."""

    run: int
    generation_id: str
    request_id: str
    start: Position
    settings: RunSettings
    context_start: Position | None = None
    others: tuple[str, ...] = Field(default=(), description="request ids of inputs that were placed with the first one")
    taken: tuple[Queued, ...] = Field(
        default=(),
        description="steers and writes that it took at a boundary; whole, for a reset of the run unplaces them. "
        "And the steers that a Stop found queued",
    )
    is_stopped: bool = Field(default=False, description="a Stop came")
    is_begun: bool = Field(default=False, description="its workflow is there and can be told of mail")
    is_told: bool = Field(default=False, description="that it could place something, since its last boundary")
    is_told_of_steers: bool = Field(default=False, description="that a steer is among it")
    began_with: int = Field(default=0, description="the number of the choices that it began with")
    knows: int = Field(default=0, description="the number of the choices that it was told last")
    asks: bool = Field(default=False, description="it asks for a permit of its tree before it does anything")
    trace: str = Field(default="", description="that its input was submitted in; empty: it begins one")

    @property
    def requests(self) -> tuple[str, ...]:
        """The request ids of all that it answers, or may place."""
        return (self.request_id, *self.others, *(item.request_id for item in self.taken))

    def stopped(self, steers: Sequence[Queued]) -> OpenRun:
        """With the steers that a Stop found queued."""
        return self.model_copy(update={"taken": (*self.taken, *steers), "is_stopped": True})

    def may_overtake(self, result: RunResult) -> bool:
        """Whether steers that it took, and did not place, were overtaken by a Stop: of the conversation or its own."""
        return (self.is_stopped or result.reason == "aborted") and any(item.is_input for item in self.taken)


NOT_TOLD = {"is_told": False, "is_told_of_steers": False}
"""Of a run that has just asked, or is another one."""
