"""Running one generation for a conversation: started, adopted after a reset, or salvaged when it is lost."""

from __future__ import annotations

from collections.abc import Callable

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ChildWorkflowError, WorkflowAlreadyStartedError

from tarry.core.conversation import ConversationState
from tarry.core.keeping import SALVAGE, Salvaged, SalvageInput
from tarry.core.open_run import OpenRun
from tarry.core.protocol import GENERATION, RunResult, digest
from tarry.core.recalling import has_forgotten, recalled
from tarry.core.run import GenerationInput
from tarry.core.text import canonical_json
from workflows import ends, options, patches, spans
from workflows.adopting import adopt, result_of
from workflows.supervise import StopSwitch


async def run_generation(
    state: ConversationState, run: OpenRun, stop: StopSwitch, begun: Callable[[], None]
) -> RunResult:
    """The run's result; a run that ends without one is salvaged and its input `unanswered`.

    `begun` is called when its workflow is there.

    One that is stopped before it is started is not started. When another timeline answered another input under its
    id, it gets the next one (spec §1.7).
    """
    if stop.is_set:
        return RunResult(status="unanswered", reason="aborted")
    with spans.conversation(run) as span:
        result = await _ended(state, run, stop, begun)
        if state.open is not None and has_forgotten(state.open, result) and patches.FORGOTTEN.is_passed():
            state.open = recalled(state.open, state.inbox, result, workflow.now())
        span.set_attribute(spans.OUTCOME, result.reason or result.status)
    return result


async def _ended(state: ConversationState, run: OpenRun, stop: StopSwitch, begun: Callable[[], None]) -> RunResult:
    first_id = run.generation_id
    for number in range(2, 100):
        try:
            return await _start(run, state.tree, stop, begun)
        except ChildWorkflowError as error:
            return await _salvage(run, str(error.cause or error))
        except WorkflowAlreadyStartedError:
            begun()
            adopted = await adopt(run.generation_id, _fingerprint(run), run.settings, stop)
        if adopted.matches:
            return result_of(adopted, RunResult) or await _salvage(run, "it left no result")
        run = state.rename_open(f"{first_id}~{number}")
    return await _salvage(run, "other timelines used its ids")


def _input(run: OpenRun, tree: str) -> GenerationInput:
    return GenerationInput(
        conversation_id=workflow.info().workflow_id,
        run=run.run,
        start=run.start,
        settings=run.settings,
        context_start=run.context_start,
        compacts=True,
        folds=True,
        tree=tree,
        asks=run.asks,
    )


def _fingerprint(run: OpenRun) -> str:
    """What makes two runs the same: the place they start at. Settings may differ by deploy."""
    return digest(canonical_json([run.run, run.start.index, run.start.chain]))


async def _start(run: OpenRun, tree: str, stop: StopSwitch, begun: Callable[[], None]) -> RunResult:
    input = _input(run, tree)
    child = await workflow.start_child_workflow(
        GENERATION,
        input,
        result_type=RunResult,
        **options.child(run.generation_id, input.conversation_id, _fingerprint(run), f"run {run.run}"),
    )
    begun()
    return await stop.watch_child(child)


async def _salvage(run: OpenRun, why: str) -> RunResult:
    """Keep what the lost run still holds."""
    try:
        answer = await workflow.execute_activity(
            SALVAGE,
            SalvageInput(generation_id=run.generation_id, start=run.start),
            result_type=RawValue,
            **options.SALVAGE,
        )
        kept = ends.read(answer, Salvaged) or Salvaged()
    except ActivityError:
        kept = Salvaged()
    return RunResult(
        status="unanswered",
        reason="lost",
        detail=why,
        pages=kept.pages,
        entries=kept.entries,
        usage=kept.usage,
        spent=kept.spent,
        placed=kept.placed,
        places=kept.places,
        after_run=kept.after_run,
    )
