"""Telling the hooks of runs that have ended, beside the runs that follow (spec §6.5)."""

from __future__ import annotations

from temporalio import workflow

from tarry.core.conversation import ConversationState
from workflows.run import hook_tasks
from workflows.supervise import StopSwitch


async def serve(state: ConversationState) -> None:
    """Tell of one run after the other, for as long as the workflow's run lasts. A Stop does not end it."""
    while True:
        await workflow.wait_condition(lambda: bool(state.ended_runs))
        ended = state.ended_runs[0]
        answer = await hook_tasks.ask(ended.input, ended.settings, StopSwitch())
        state.told_end(answer, workflow.now(), workflow.info().workflow_id)
