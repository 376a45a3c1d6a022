"""Workflows after a change that a deploy could bring: one more step, once without a guard and once with one.

A run takes it at its beginning, a call each time it parks. And one that does what no workflow may.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from temporalio import workflow

from signals.parking import Park
from tarry.core import task as machine
from tarry.core.protocol import GENERATION, TOOL_CALL, RunResult, ToolOutcome
from tarry.core.run import GenerationInput
from tarry.core.task_state import ToolCallInput
from workflows.run.generation import Generation
from workflows.task.tool_call import ToolCall

EXTRA = "tarry.test-extra"


@workflow.defn(name=GENERATION)
class Unguarded(Generation):
    """Does something more first, also in the middle of what began without it."""

    @workflow.init
    def __init__(self, input: GenerationInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: GenerationInput) -> RunResult:
        await workflow.execute_activity(EXTRA, start_to_close_timeout=timedelta(seconds=5))
        return await super().run(input)


@workflow.defn(name=GENERATION)
class Guarded(Generation):
    """Does something more first, unless it began without it."""

    @workflow.init
    def __init__(self, input: GenerationInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: GenerationInput) -> RunResult:
        if workflow.patched(EXTRA):
            await workflow.execute_activity(EXTRA, start_to_close_timeout=timedelta(seconds=5))
        return await super().run(input)


@workflow.defn(name=TOOL_CALL)
class UnguardedCall(ToolCall):
    """Does something more where it parks, also when it parked without it."""

    @workflow.init
    def __init__(self, input: ToolCallInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: ToolCallInput) -> ToolOutcome:
        return await super().run(input)

    async def _rest(self, park: Park) -> machine.Event | None:
        await workflow.execute_activity(EXTRA, start_to_close_timeout=timedelta(seconds=5))
        return await super()._rest(park)


@workflow.defn(name=TOOL_CALL)
class GuardedCall(ToolCall):
    """Does something more where it parks, unless it parked without it."""

    @workflow.init
    def __init__(self, input: ToolCallInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: ToolCallInput) -> ToolOutcome:
        return await super().run(input)

    async def _rest(self, park: Park) -> machine.Event | None:
        if workflow.patched(EXTRA):
            await workflow.execute_activity(EXTRA, start_to_close_timeout=timedelta(seconds=5))
        return await super()._rest(park)


@workflow.defn(name=GENERATION)
class Timed(Generation):
    """Reads the clock of the machine."""

    @workflow.init
    def __init__(self, input: GenerationInput) -> None:
        super().__init__(input)

    @workflow.run
    async def run(self, input: GenerationInput) -> RunResult:
        datetime.now(UTC)
        return await super().run(input)
