"""The tasks that a run's hooks return: awaited children of the run (spec §6.5)."""

from __future__ import annotations

import asyncio

from temporalio import workflow
from temporalio.exceptions import ActivityError, ChildWorkflowError, WorkflowAlreadyStartedError

from tarry.core.protocol import DURABLE_TASK, ResolvedCall, digest
from tarry.core.run import GenerationInput
from tarry.core.run_hooks import ASK_RUN_HOOKS, RunHookAnswer, RunHookInput
from tarry.core.task_state import TaskInput, TaskOutcome
from tarry.core.text import canonical_json
from workflows import options
from workflows.supervise import StopSwitch


async def ask(input: RunHookInput, kind: str) -> RunHookAnswer:
    """What the hooks answer; hooks that cannot be asked at all are told of, and answer nothing."""
    if kind == "quick":
        try:
            quick: RunHookAnswer = await workflow.execute_local_activity(
                ASK_RUN_HOOKS, input, result_type=RunHookAnswer, **options.LOOKUP
            )
        except ActivityError:
            pass
        else:
            return quick
    try:
        slow: RunHookAnswer = await workflow.execute_activity(
            ASK_RUN_HOOKS, input, result_type=RunHookAnswer, **options.HOOKS
        )
    except ActivityError as error:
        return RunHookAnswer(problems=(f"the hooks could not be asked: {error.cause or error}",))
    return slow


async def outcomes(
    run: GenerationInput, turn: int, tasks: tuple[ResolvedCall, ...], stop: StopSwitch
) -> list[TaskOutcome | None]:
    """Run the tasks, together; their outcomes in the order of creation, None for one that left none."""
    return list(await asyncio.gather(*(_outcome(run, f"h{turn}.{n}", call, stop) for n, call in enumerate(tasks))))


async def _outcome(run: GenerationInput, name: str, call: ResolvedCall, stop: StopSwitch) -> TaskOutcome | None:
    if stop.is_set:
        return None
    content = digest(canonical_json([call.tool, call.arguments]))
    task_id = f"{workflow.info().workflow_id}/{name}"
    try:
        child = await workflow.start_child_workflow(
            DURABLE_TASK,
            TaskInput(conversation_id=run.conversation_id, call=call, settings=run.settings),
            result_type=TaskOutcome,
            **options.child(task_id, run.conversation_id, content, options.summary(call), call.tool),
        )
        return await stop.watch_child(child)
    except (ChildWorkflowError, WorkflowAlreadyStartedError):  # ended from outside; or an earlier timeline's
        return None
