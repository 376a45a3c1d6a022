"""Workflows after a change that a deploy could bring: one more step, once without a guard and once with one."""

from __future__ import annotations

from datetime import timedelta

from temporalio import workflow

from tarry.core.protocol import GENERATION, RunResult
from tarry.core.run import GenerationInput
from workflows.generation import Generation

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
