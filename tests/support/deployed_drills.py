"""Drills with two builds of workers: calls that are parked by one and go on with the other."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from temporalio.api.enums.v1 import EventType
from temporalio.service import RPCError

from tarry.asking import QUERY_TIMEOUT, query
from tarry.attributes import STATE, TOOL
from tarry.client import Submission
from tarry.connect import sending_inline
from tarry.core.subagents.protocol import AGENT_ID
from tarry.core.waiting import TASK, TaskView
from tarry.embedded import EmbeddedServer
from tarry.processes import Child
from tests.support.command import Command, Done
from tests.support.deployed_app import KEY, WORD
from tests.support.drills import Drill
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Went:
    """A conversation when its submission is settled. `runs` are the builds and tools of the runs that really began."""

    answer: str
    runs: Sequence[str]
    failed_tasks: Sequence[str] = ()


class DeployedDrill(Drill):
    """A drill whose workers are builds of a deployment of its own."""

    def __init__(self, server: EmbeddedServer, folder: Path, tracker: str, **settings: Any) -> None:
        super().__init__(server, folder, tracker, **settings)
        self.deployment = f"drill-{uuid.uuid4().hex[:8]}"

    async def build(self, name: str, **environment: str) -> Child:
        """One more worker, of this build."""
        self.app = f"tests.support.deployed_app:{name}"
        return await self.worker(TARRY_DEPLOYMENT=self.deployment, TARRY_BUILD=name, **environment)

    async def tarry(self, *arguments: str) -> Done:
        """Run a command beside the workers."""
        return await Command(self.folder, self._environment()).run(*arguments)

    async def make_current(self, build: str) -> None:
        """As a person does it."""
        done = await self.tarry("deploy", "current", build, "--deployment", self.deployment)
        assert done.code == 0, done.err

    async def status(self) -> Any:
        """What `tarry deploy status` says."""
        return (await self.tarry("deploy", "status", "--json", "--deployment", self.deployment)).json

    async def parked(self, tool: str, state: str = "sleeping", *, of_agent: bool = False) -> str:
        """The id of the one call of a tool that is parked, of the agent or of a conversation. Needs no worker."""
        query = (
            f'TaskQueue = "{self.settings.task_queue}" AND ExecutionStatus = "Running" '
            f'AND {STATE.name} = "{state}" AND {TOOL.name} = "{tool}"'
        )

        async def found() -> list[str]:
            ids = [item.id async for item in self.harness.client.list_workflows(query)]
            return [id for id in ids if id.startswith(AGENT_ID) == of_agent]

        [task_id] = await eventually(found)
        return task_id

    async def tell(self, task_id: str, text: str, key: str = KEY) -> None:
        """A plain signal, as a shell sends it: the server takes it, whoever is up."""
        envelope = {"key": key, "value": {"text": text}}
        await sending_inline(self.harness.client).get_workflow_handle(task_id).signal(WORD.name, envelope)

    async def went(self, submission: Submission) -> Went:
        """All of it. Needs a worker."""
        after = await self.aftermath(submission)
        view = await submission.wait()
        runs = [run.tool for run in self.runs(submission.conversation_id)]
        return Went(view.answer_text or view.reason, runs, after.account.failed_tasks)

    async def failed(self, task_id: str) -> None:
        """Return when a step of a task has failed for that its history does not fit the code."""
        handle = self.harness.client.get_workflow_handle(task_id)

        async def has_failed() -> bool:
            return any(
                event.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
                and "TMPRL1100" in event.workflow_task_failed_event_attributes.failure.message
                for event in (await handle.fetch_history()).events
            )

        await eventually(has_failed)

    async def begun(self, runs: int) -> None:
        """Return when that many runs of tools have begun."""

        async def have_begun() -> bool:
            return len(self.lines("ledger")) >= runs

        await eventually(have_begun)

    async def misfit(self, task_id: str) -> None:
        """Return when a task's history does not fit the code of the worker that is asked about it."""

        async def does_not_fit() -> bool:
            try:
                await query(self.harness.client.get_workflow_handle(task_id), TASK, TaskView, within=QUERY_TIMEOUT)
            except RPCError as error:
                return "does not fit the history" in error.message
            return False

        await eventually(does_not_fit)

    async def behaviours(self) -> set[str]:
        """How all workflows of the queue go from build to build, as the server has it."""
        query = f'TaskQueue = "{self.settings.task_queue}" AND ExecutionStatus = "Running"'
        found = self.harness.client.list_workflows(query)
        key = "TemporalWorkflowVersioningBehavior"
        return {str(item.search_attributes.get(key, [""])[0]) async for item in found}
