"""Runs a tool in its own workflow on a real server, with workers that serve tool calls alone."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from temporalio.client import Client, WorkflowHandle
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

from activities.task.tools import ToolActivities
from tarry.app import Extension, Registry
from tarry.core.protocol import TOOL_CALL, RunSettings, ToolOutcome
from tarry.core.task_state import ToolCallInput
from tarry.settings import Settings
from tarry.store import BlobStore
from tarry.tools import Tool
from tests.support.tool_bench import resolved
from workflows.task.tool_call import ToolCall


@dataclass
class Host:
    """A queue of its own; workers on it notice a lost worker or a Stop within a second."""

    client: Client
    queue: str = field(default_factory=lambda: f"tools-{uuid.uuid4().hex[:8]}")

    def worker(self, *tools: Tool, shutdown_grace: float = 0.0) -> Worker:
        """One more worker with these tools."""
        activities = ToolActivities(
            Registry([Extension("test", tools)]),
            self.client,
            BlobStore(self.client.data_converter),
            Settings(),
            grace=timedelta(seconds=0.2),
        )
        return Worker(
            self.client,
            task_queue=self.queue,
            workflows=[ToolCall],
            activities=[activities.run, activities.reconcile],
            workflow_runner=UnsandboxedWorkflowRunner(),
            graceful_shutdown_timeout=timedelta(seconds=shutdown_grace),
            max_heartbeat_throttle_interval=timedelta(seconds=0.1),
            default_heartbeat_throttle_interval=timedelta(seconds=0.1),
        )

    async def start(self, used: Tool, **call: Any) -> WorkflowHandle[Any, ToolOutcome]:
        """Start a call of `used`; `call` overrides what was resolved of it."""
        input = ToolCallInput(
            conversation_id="conv-1",
            generation_id="conv-1~n/g1",
            call=resolved(used, **call),
            settings=RunSettings(heartbeat_timeout=1.0),
            takes_signals=True,
            judged_by_pass=True,
        )
        return await self.client.start_workflow(
            TOOL_CALL, input, id=f"call-{uuid.uuid4().hex[:8]}", task_queue=self.queue, result_type=ToolOutcome
        )
