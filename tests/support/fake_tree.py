"""A workflow in the place of a tree of agents: it notes what it is told, and grants permits as a test wants."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from temporalio import workflow
from temporalio.client import Client
from temporalio.common import RawValue
from temporalio.exceptions import FailureError
from temporalio.worker import Worker

from tarry.core.subagents.protocol import GRANTED, WANTS
from tests.support.waiting import eventually

GRANT = "test.grant"
"""Plain signal: grant what is asked for by now, and from now on at once."""


@workflow.defn(name="test.tree", sandboxed=False)
class FakeTreeWorkflow:
    @workflow.init
    def __init__(self, grants: bool) -> None:
        self._grants = grants
        self._told: list[tuple[str, Any]] = []
        self._wants: list[Any] = []

    @workflow.run
    async def run(self, grants: bool) -> None:
        while True:
            await workflow.wait_condition(lambda: self._grants and bool(self._wants))
            notice = self._wants.pop(0)
            with contextlib.suppress(FailureError):
                await workflow.get_external_workflow_handle(notice["generation_id"]).signal(GRANTED, notice)

    @workflow.signal(dynamic=True)
    def on_signal(self, name: str, args: Sequence[RawValue]) -> None:
        if name == GRANT:
            self._grants = True
            return
        value = workflow.payload_converter().from_payload(args[0].payload)
        self._told.append((name.removeprefix("tarry.agents."), value))
        if name == WANTS:
            self._wants.append(value)

    @workflow.query
    def told(self) -> list[tuple[str, Any]]:
        return self._told


@dataclass
class FakeTree:
    """A tree under `id`."""

    client: Client
    id: str = field(default_factory=lambda: f"root~{uuid.uuid4().hex[:8]}/agents")

    async def told(self, *names: str) -> list[tuple[str, Any]]:
        """What it was told so far, of these kinds or all."""
        found: list[list[Any]] = await self.client.get_workflow_handle(self.id).query("told")
        return [(name, value) for name, value in found if not names or name in names]

    async def has_been_told(self, count: int, *names: str) -> list[tuple[str, Any]]:
        """What it was told, once it is so much."""
        return await eventually(lambda: self.told(*names), lambda found: len(found) >= count)

    async def grant(self) -> None:
        """Grant what is asked for by now, and from now on."""
        await self.client.get_workflow_handle(self.id).signal(GRANT)


@contextlib.asynccontextmanager
async def fake_tree(client: Client, tree_id: str = "", *, grants: bool = True) -> AsyncIterator[FakeTree]:
    """A tree that runs; without `grants` it grants nothing until it is told to."""
    tree = FakeTree(client, tree_id) if tree_id else FakeTree(client)
    queue = f"tree-{uuid.uuid4().hex[:8]}"
    async with Worker(client, task_queue=queue, workflows=[FakeTreeWorkflow], max_cached_workflows=10):
        await client.start_workflow("test.tree", grants, id=tree.id, task_queue=queue)
        try:
            yield tree
        finally:
            await client.get_workflow_handle(tree.id).terminate()
