"""`tarry.ask-run-hooks`: what the hooks of a run say to a round of tools, to an answer, to its end (spec §6.5)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from temporalio import activity

from activities.calling import called
from activities.heartbeat import Heartbeat
from activities.hooks.gates import limit
from activities.reports import failed
from tarry.app import Registry
from tarry.core.protocol import Progress, ResolvedCall
from tarry.core.run_hooks import ASK_RUN_HOOKS, Moment, RunHookAnswer, RunHookInput, input_text
from tarry.hooks import Continue, Hooks, HookTask, RunEnded, Turn

MAX_TASKS = 32
"""Tasks that the hooks of one moment may return together."""


class RunHookActivities:
    """Asks the hooks of `registry`, in order; one that raises is told of, and the others are asked."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    @activity.defn(name=ASK_RUN_HOOKS)
    async def ask(self, input: RunHookInput) -> RunHookAnswer:
        """Their tasks in the order of their extensions, and the first input that sends the agent back."""
        async with Heartbeat(Progress):
            return await self._ask(input)

    async def _ask(self, input: RunHookInput) -> RunHookAnswer:
        told = _told(input)
        registry = self._registry.chosen(input.agent)
        ends = time.monotonic() + limit(getattr(registry, input.moment))
        tasks: list[ResolvedCall] = []
        go_on: str | None = None
        problems: list[str] = []
        for name, hooks in registry.hooks:
            if (hook := _hook(hooks, input.moment)) is None:
                continue
            try:
                answer = await called(partial(hook, told), ends)
                if isinstance(answer, Continue):
                    go_on = go_on or input_text(answer.input)
                else:
                    tasks += _tasks(answer)
            except Exception as error:  # a hook is application code and may raise or return anything
                problems.append(failed(f"hook {input.moment} of {name}", error))
        if len(tasks) > MAX_TASKS:
            problems.append(f"hooks {input.moment} returned {len(tasks)} tasks; those after {MAX_TASKS} were left out")
        return RunHookAnswer(tasks=tuple(tasks[:MAX_TASKS]), go_on=go_on, problems=tuple(problems))


def _hook(hooks: Hooks, moment: Moment) -> Callable[[Any], Any] | None:
    hook: Callable[[Any], Any] | None = getattr(hooks, moment)
    return hook


def _told(input: RunHookInput) -> Turn | RunEnded:
    end = input.ended
    if end is None:
        return Turn(input.conversation_id, input.generation_id, input.turn, input.text, input.results)
    answer = input.text if end.status == "done" else None
    return RunEnded(input.conversation_id, input.generation_id, end.request_ids, answer, end.reason, end.detail)


def _tasks(answer: Sequence[HookTask] | None) -> list[ResolvedCall]:
    return [asked.task.call(asked.input) for asked in answer or ()]
