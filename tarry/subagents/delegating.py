"""`subagent` and `subagent_fork`: a child that works beside its parent, or for whose answer the parent waits.

Which of the two is one choice for a whole tree. A call that waits is parked: it holds no worker, and is told when the
turn of its child has ended (spec §17.41).
"""

from __future__ import annotations

import contextlib
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from typing import Annotated, Any

from pydantic import Field

from signals.parking import Sleep
from tarry.api import ToolApi
from tarry.client.errors import AgentRefused, NoSuchAgents
from tarry.core.messages import Frozen
from tarry.core.subagents.protocol import AGENT_UPDATE, OWN, ContextMode, ContextPolicy, Started
from tarry.subagents.telling import RESULT_BYTES, answer_result, refusals_are_results
from tarry.tools import ToolResult, tool

LOOK_AGAIN = timedelta(hours=1)
"""A parked call looks for itself now and then, so that nothing that got lost keeps it waiting for ever."""

NO_PATTERNS = "output_schema: pattern and patternProperties are not taken; use enum or format, or say it in the prompt"
"""A regular expression that a model made up can keep a worker busy for ever, and nothing in Python can end that."""

AgentName = Annotated[str, Field(description="Which agent to delegate to")]
Prompt = Annotated[
    str,
    Field(description="What it is to do. It knows nothing but this and the context it is given: say what it needs"),
]
Description = Annotated[str, Field(description="The task in a few words, for people", max_length=500)]
TaskName = Annotated[
    str | None,
    Field(description="The last part of its path: 1 to 64 of a-z, 0-9, - and _; made of the description by default"),
]
OutputSchema = Annotated[
    dict[str, Any] | None,
    Field(description="A JSON Schema: its answer must be one JSON value that fits. Text by default"),
]


async def stop_child(api: ToolApi) -> None:
    """Stop the child that a call has started which is stopped by itself; the Stop of a whole run does that anyway."""
    with contextlib.suppress(AgentRefused, NoSuchAgents):
        await api.agents.interrupt(OWN)


class Context(Frozen):
    """What a child knows of the conversation so far, up to the last turn that is complete."""

    mode: ContextMode = Field(
        default="fresh", description="fresh: nothing; all_completed: all turns; last_n_completed: some of them"
    )
    completed_turns: int | None = Field(
        default=None, ge=1, le=100, description="How many turns, with last_n_completed alone"
    )


@tool(replay="safe", cancel=stop_child, cancel_always=True, output=Any, result_bytes=RESULT_BYTES)
@refusals_are_results
async def subagent(
    agent: AgentName,
    prompt: Prompt,
    api: ToolApi,
    description: Description = "",
    task_name: TaskName = None,
    context: Context | None = None,
    output_schema: OutputSchema = None,
) -> ToolResult | Sleep:
    """Delegate a task to an agent with a conversation of its own. Several calls in one response run side by side."""
    wanted = context or Context()
    if (wanted.completed_turns is None) == (wanted.mode == "last_n_completed"):
        text = "context: give completed_turns, 1 to 100, with the mode last_n_completed, and with no other mode"
        return ToolResult(text, is_error=True, details={"code": "invalid"})
    policy = ContextPolicy(mode=wanted.mode, completed_turns=wanted.completed_turns)
    return await _delegated(api, agent, prompt, description, task_name, policy, output_schema)


@tool(replay="safe", cancel=stop_child, cancel_always=True, output=Any, result_bytes=RESULT_BYTES)
@refusals_are_results
async def subagent_fork(
    agent: AgentName,
    prompt: Prompt,
    api: ToolApi,
    description: Description = "",
    task_name: TaskName = None,
    output_schema: OutputSchema = None,
) -> ToolResult | Sleep:
    """Delegate a task to an agent that knows this conversation, up to the last turn that is complete."""
    policy = ContextPolicy(mode="all_completed")
    return await _delegated(api, agent, prompt, description, task_name, policy, output_schema)


@dataclass(frozen=True)
class _Awaited:
    """The checkpoint of a call that waits for its child; `looks`: how often it has looked."""

    path: str
    is_data: bool
    looks: int = 1

    @property
    def key(self) -> str:
        """What is told when there is something to read: another one for each park."""
        return str(self.looks)

    def sleep(self) -> Sleep:
        return Sleep(asdict(self), until=LOOK_AGAIN, signals=[AGENT_UPDATE.key(self.key)])


async def _delegated(
    api: ToolApi,
    agent: str,
    prompt: str,
    description: str,
    task_name: str | None,
    context: ContextPolicy,
    output: dict[str, Any] | None,
) -> ToolResult | Sleep:
    if api.wake is not None:
        waited = _Awaited(**api.checkpoint)
        return await _awaited(api, replace(waited, looks=waited.looks + 1))
    if output is not None and _has_pattern(output):
        return ToolResult(NO_PATTERNS, is_error=True, details={"code": "invalid"})
    is_foreground = (await api.agents.snapshot()).settings.runtime_mode == "foreground"
    started = await api.agents.start(
        agent,
        prompt,
        description=description,
        task_name=task_name,
        context=context,
        output=output,
        key="1" if is_foreground else "",
    )
    if started.mode == "background":
        return _started(started)
    waiting = _Awaited(started.path, output is not None)
    return waiting.sleep() if is_foreground else await _awaited(api, waiting)


async def _awaited(api: ToolApi, call: _Awaited) -> ToolResult | Sleep:
    updates = await api.agents.read(call.path, key=call.key)
    if not updates.completions and updates.working:
        return call.sleep()
    if not updates.completions:
        text = f"{call.path} works no more, and nobody knows how its turn ended: its conversation tells what it did"
        return ToolResult(text, is_error=True, details={"code": "lost"})
    return answer_result(updates.completions[0], api.agents.read_done, is_data=call.is_data)


def _has_pattern(schema: dict[str, Any]) -> bool:
    parts: list[Any] = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            # What has a schema as its value is a property of that name.
            if isinstance(part.get("pattern"), str) or "patternProperties" in part:
                return True
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return False


def _started(started: Started) -> ToolResult:
    waits = "" if started.state == "running" else " It waits for a free place among the agents that run."
    text = (
        f"Started {started.path} (agent id {started.agent_id}).{waits} Go on with something else; wait_agent tells "
        "when it has ended."
    )
    return ToolResult(text, details=started.model_dump(mode="json"))
