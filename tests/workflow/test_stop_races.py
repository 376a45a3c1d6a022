"""A Stop and an end in one workflow task: what came is taken, and the end is a result (spec §7.4)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from temporalio import activity
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from tarry.connect import data_converter
from tarry.core.messages import AssistantMessage
from tarry.core.protocol import (
    GENERATION,
    MODEL_REQUEST,
    TOOL_CALL,
    TOOL_RUN,
    ModelAnswer,
    ModelRequestInput,
    ModelTurn,
    ResolvedCall,
    RunResult,
    RunSettings,
    ToolOutcome,
    ToolRunInput,
)
from tarry.core.run import GenerationInput
from tarry.core.task_state import ToolCallInput
from tarry.core.transcript import Position
from tarry.embedded import EmbeddedServer
from tests.support.waiting import eventually
from workflows.run.generation import Generation
from workflows.task.tool_call import ToolCall


@dataclass
class Work:
    """Activities that end when they are told to, on a worker that serves no workflow."""

    begun: asyncio.Event = field(default_factory=asyncio.Event)
    go: asyncio.Event = field(default_factory=asyncio.Event)

    @activity.defn(name=TOOL_RUN)
    async def run_tool(self, input: ToolRunInput) -> ToolOutcome:
        await self._until_told()
        return ToolOutcome(text="the real result")

    @activity.defn(name=MODEL_REQUEST)
    async def request(self, input: ModelRequestInput) -> ModelAnswer:
        await self._until_told()
        return ModelAnswer(ModelTurn(message=AssistantMessage(text="the real answer")))

    async def _until_told(self) -> None:
        self.begun.set()
        await self.go.wait()


@dataclass
class Scene:
    client: Client
    queue: str
    work: Work

    @asynccontextmanager
    async def workflows(self) -> AsyncIterator[None]:
        async with Worker(
            self.client,
            task_queue=self.queue,
            workflows=[Generation, ToolCall],
            workflow_runner=UnsandboxedWorkflowRunner(),
            sticky_queue_schedule_to_start_timeout=timedelta(seconds=1),
        ):
            yield


@asynccontextmanager
async def scene(server: EmbeddedServer, store: Path) -> AsyncIterator[Scene]:
    client = await Client.connect(server.address, data_converter=data_converter(str(store)))
    made = Scene(client, f"race-{uuid.uuid4().hex[:8]}", Work())
    async with Worker(client, task_queue=made.queue, activities=[made.work.run_tool, made.work.request]):
        yield made


async def stop_and_end(on: Scene, handle: WorkflowHandle[object, object]) -> None:
    """With no workflow worker up: first the Stop is stored, then the activity's end."""
    await handle.cancel()
    on.work.go.set()

    async def has_ended() -> bool:
        history = await handle.fetch_history()
        return any(event.HasField("activity_task_completed_event_attributes") for event in history.events)

    await eventually(has_ended)


async def test_result_that_comes_in_the_task_of_a_stop_is_kept(server: EmbeddedServer, tmp_path: Path) -> None:
    async with scene(server, tmp_path) as on:
        call = ToolCallInput(
            conversation_id="c",
            generation_id="g",
            call=ResolvedCall(call_id="1", tool="pay"),
            settings=RunSettings(heartbeat_timeout=60),
            takes_signals=True,
            judged_by_pass=True,
        )
        async with on.workflows():
            handle = await on.client.start_workflow(
                TOOL_CALL, call, id=f"{on.queue}/t1.0", task_queue=on.queue, result_type=ToolOutcome
            )
            await on.work.begun.wait()
        await stop_and_end(on, handle)
        async with on.workflows():
            outcome = await handle.result()

    assert (outcome.text, outcome.code) == ("the real result", "")


async def test_answer_that_comes_in_the_task_of_a_stop_ends_the_run_with_a_result(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with scene(server, tmp_path) as on:
        run = GenerationInput(
            conversation_id="c", run=1, start=Position(chain="n"), settings=RunSettings(heartbeat_timeout=60)
        )
        async with on.workflows():
            handle = await on.client.start_workflow(
                GENERATION, run, id=f"{on.queue}/g1", task_queue=on.queue, result_type=RunResult
            )
            await on.work.begun.wait()
        await stop_and_end(on, handle)
        async with on.workflows():
            result = await handle.result()

    assert (result.status, [entry.kind for entry in result.entries]) == ("done", ["assistant"])
