"""Running one generation for a conversation: started, adopted after a reset, or salvaged when it is lost."""

from __future__ import annotations

from temporalio import workflow
from temporalio.exceptions import ActivityError, ChildWorkflowError, WorkflowAlreadyStartedError

from tarry.core.conversation import ConversationState, OpenRun
from tarry.core.protocol import (
    ADOPT,
    GENERATION,
    SALVAGE,
    Adopted,
    AdoptInput,
    RunResult,
    Salvaged,
    SalvageInput,
    digest,
)
from tarry.core.run import GenerationInput
from tarry.core.text import canonical_json
from workflows import options
from workflows.supervise import StopSwitch


async def run_generation(state: ConversationState, run: OpenRun, stop: StopSwitch) -> RunResult:
    """The run's result; a run that ends without one is salvaged and its input `unanswered`."""
    input = GenerationInput(
        conversation_id=workflow.info().workflow_id, run=run.run, start=run.start, settings=run.settings
    )
    fingerprint = digest(canonical_json(input.model_dump(mode="json")))
    try:
        child = await workflow.start_child_workflow(
            GENERATION,
            input,
            result_type=RunResult,
            **options.child(run.generation_id, input.conversation_id, fingerprint, f"run {run.run}"),
        )
        return await stop.watch(child)
    except WorkflowAlreadyStartedError:
        return await _adopt(run, fingerprint, stop)
    except ChildWorkflowError as error:
        return await _salvage(run, str(error.cause or error))


async def _adopt(run: OpenRun, fingerprint: str, stop: StopSwitch) -> RunResult:
    try:
        adopted = await stop.watch(
            workflow.start_activity(
                ADOPT,
                AdoptInput(workflow_id=run.generation_id, digest=fingerprint),
                result_type=Adopted,
                **options.adopt(run.settings),
            )
        )
    except ActivityError as error:
        return await _salvage(run, str(error.cause or error))
    if adopted.matches and adopted.result is not None:
        return RunResult.model_validate(adopted.result)
    return await _salvage(run, "another timeline used its id")


async def _salvage(run: OpenRun, why: str) -> RunResult:
    """Keep what the lost run still holds."""
    try:
        kept = await workflow.execute_activity(
            SALVAGE,
            SalvageInput(generation_id=run.generation_id, start=run.start),
            result_type=Salvaged,
            **options.SALVAGE,
        )
    except ActivityError:
        kept = Salvaged()
    return RunResult(status="unanswered", reason="lost", detail=why, pages=kept.pages, entries=kept.entries)
