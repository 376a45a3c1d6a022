"""The tasks that a run's hooks return: awaited children of the run (spec §6.5)."""

from __future__ import annotations

import asyncio

from temporalio import workflow
from temporalio.common import RawValue
from temporalio.exceptions import ActivityError, ChildWorkflowError, WorkflowAlreadyStartedError

from tarry.core.protocol import DURABLE_TASK, ResolvedCall, RunSettings, digest
from tarry.core.run import GenerationInput
from tarry.core.run_hooks import ASK_RUN_HOOKS, RunHookAnswer, RunHookInput
from tarry.core.task_state import TaskInput, TaskOutcome
from tarry.core.text import canonical_json
from workflows import ends, options
from workflows.adopting import adopt, result_of
from workflows.agents.permits import Permit
from workflows.supervise import StopSwitch


async def ask(input: RunHookInput, settings: RunSettings, stop: StopSwitch) -> RunHookAnswer:
    """What the hooks answer; hooks that cannot be asked at all are told of, and answer nothing. A Stop ends it."""
    config = options.call_hooks(settings, within=None)
    try:
        answer = await stop.watch(workflow.start_activity(ASK_RUN_HOOKS, input, result_type=RawValue, **config))
    except ActivityError as error:
        if stop.is_set:
            return RunHookAnswer()
        return RunHookAnswer(problems=(f"the hooks could not be asked: {error.cause or error}",))
    return ends.read(answer, RunHookAnswer) or RunHookAnswer(problems=("the hooks left no answer that can be read",))


async def outcomes(
    run: GenerationInput, turn: int, tasks: tuple[ResolvedCall, ...], stop: StopSwitch, permit: Permit
) -> list[TaskOutcome | None]:
    """Run the tasks, together; their outcomes in the order of creation, None for one that left none."""
    return list(
        await asyncio.gather(*(_outcome(run, f"h{turn}.{n}", call, stop, permit) for n, call in enumerate(tasks)))
    )


async def _outcome(
    run: GenerationInput, name: str, call: ResolvedCall, stop: StopSwitch, permit: Permit
) -> TaskOutcome | None:
    if stop.is_set:
        return None
    task_id = f"{workflow.info().workflow_id}/{name}"
    with permit.open(task_id):
        return await _run(run, task_id, call, stop, permit)


async def _run(
    run: GenerationInput, task_id: str, call: ResolvedCall, stop: StopSwitch, permit: Permit
) -> TaskOutcome | None:
    content = digest(canonical_json([call.tool, call.arguments]))
    suffix = ""
    for number in range(2, 100):
        try:
            return await _start(run, task_id + suffix, content, call, stop, permit)
        except ChildWorkflowError:  # ended from outside
            return None
        except WorkflowAlreadyStartedError:
            adopted = await adopt(task_id + suffix, content, run.settings, stop)
        if adopted.matches:
            return result_of(adopted, TaskOutcome)
        suffix = f"~{number}"
    return None


async def _start(
    run: GenerationInput, task_id: str, content: str, call: ResolvedCall, stop: StopSwitch, permit: Permit
) -> TaskOutcome:
    child = await workflow.start_child_workflow(
        DURABLE_TASK,
        TaskInput(
            conversation_id=run.conversation_id,
            call=call,
            settings=run.settings.for_calls(),
            tree=run.tree,
            permit_of=permit.of,
        ),
        result_type=TaskOutcome,
        **options.child(task_id, run.conversation_id, content, options.summary(call), call),
    )
    return await stop.watch_child(child)
