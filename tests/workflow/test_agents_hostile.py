"""What a shell can send to a tree of agents: none of it stops the tree (spec §17.14)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client, Interceptor, OutboundInterceptor, QueryWorkflowInput, WorkflowUpdateFailedError
from temporalio.service import RPCError, RPCStatusCode

from tarry import SUBMISSION_SETTLED
from tarry.client.agents import AgentTree
from tarry.client.errors import AgentRefused
from tarry.core.subagents.protocol import (
    AGENTS,
    FOLLOW_UP,
    INTERRUPT,
    READ,
    READ_DONE,
    RELOAD,
    RESTED,
    SEND,
    START,
    STOPPED,
    WANTS,
)
from tarry.core.waiting import DELIVER
from tarry.embedded import EmbeddedServer
from tests.support.agent_trees import Grove, Work, children_app, grove
from tests.support.histories import account
from tests.support.shell import succeeds
from tests.support.stage import idle_stage

NOBODY = {"conversation_id": "nobody", "generation_id": "nobody~n/g1", "number": 10**30}
RUBBISH: list[Any] = [
    [],
    [1, 2],
    [None],
    ["text"],
    [7],
    [b"\xff\x00"],
    [{}],
    [[{}]],
    [{"task_id": 7, "conversation_id": None, "run": "x", "number": -1}],
    [{"conversation_id": "\x00", "generation_id": "", "number": -(10**30)}],
    [{"conversation_id": "nobody", "run": 10**30}],
    [NOBODY],
    [{"value": {"conversation_id": "nobody", "request_id": "r", "status": "done"}, "key": "k"}],
    [{"definitions": [{"name": 1}], "settings": {"max_concurrent_runs": 0}}],
]
SIGNALS = [READ_DONE, RESTED, WANTS, STOPPED, SUBMISSION_SETTLED.name, "tarry.agents.nothing", "x" * 500, RELOAD]


async def works(on: Grove) -> None:
    started = await on.start()
    assert [one.path for one in await on.completions(1)] == [started.path]
    assert (await account(on.on.client, on.tree.id)).failed_tasks == ()


async def test_no_plain_signal_stops_a_tree(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        handle = on.on.client.get_workflow_handle(on.tree.id)
        for name in SIGNALS:
            for args in RUBBISH:
                await handle.signal(name, args=args)

        await works(on)


@pytest.mark.parametrize("name", [START, SEND, FOLLOW_UP, READ, INTERRUPT, RELOAD, DELIVER])
async def test_no_update_stops_a_tree(server: EmbeddedServer, tmp_path: Path, name: str) -> None:
    async with grove(server, tmp_path) as on:
        handle = on.on.client.get_workflow_handle(on.tree.id)
        for args in [*RUBBISH, [{"signal": "other", "key": "k", "value": 1}]]:
            with pytest.raises(WorkflowUpdateFailedError):
                await handle.execute_update(name, args=args)

        await works(on)


async def test_a_reload_that_names_no_agents_changes_nothing_and_an_event_says_why(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with grove(server, tmp_path) as on:
        before = await on.tree.snapshot()
        where = ("--workflow-id", on.tree.id, "--name", RELOAD)
        await succeeds(server, "workflow", "signal", *where, "--input", "{}")
        with pytest.raises(WorkflowUpdateFailedError) as refused:
            await on.on.client.get_workflow_handle(on.tree.id).execute_update(RELOAD, {})

        assert await on.tree.snapshot() == before
        (event,) = (await on.tree.list()).events
        assert (event.kind, event.path) == ("reload", "/root")
        assert event.detail.startswith("refused: a reload names the agents")
        assert "`definitions`" in str(refused.value.cause)
        await succeeds(server, "workflow", "signal", *where, "--input", '{"definitions": []}')
        assert (await on.tree.snapshot()).definitions == ()


async def test_a_tree_that_a_shell_starts_without_an_input_has_no_agents_and_answers(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    async with idle_stage(server, children_app(Work()), tmp_path) as on, on.worker():
        made = Grove(on, Work())
        queue = on.settings.task_queue
        where = ("--workflow-id", made.tree.id, "--task-queue", queue)
        await succeeds(server, "workflow", "start", "--type", AGENTS, *where)

        assert (await made.tree.list()).root == made.root
        with pytest.raises(AgentRefused, match="there are none"):
            await made.start()


class Crowd(Interceptor):
    """A server that keeps one question of a workflow: so many are turned away."""

    def __init__(self, number: int) -> None:
        self.left = number

    def intercept_client(self, next: OutboundInterceptor) -> OutboundInterceptor:
        return _Turned(next, self)


class _Turned(OutboundInterceptor):
    def __init__(self, next: OutboundInterceptor, crowd: Crowd) -> None:
        super().__init__(next)
        self._crowd = crowd

    async def query_workflow(self, input: QueryWorkflowInput) -> Any:
        self._crowd.left -= 1
        if self._crowd.left >= 0:
            raise RPCError("consistent query buffer is full", RPCStatusCode.RESOURCE_EXHAUSTED, b"")
        return await super().query_workflow(input)


async def test_who_looks_while_many_do_is_answered_all_the_same(server: EmbeddedServer, tmp_path: Path) -> None:
    async with grove(server, tmp_path) as on:
        await on.start("a")
        crowd = Crowd(3)
        converter = on.on.client.data_converter
        client = await Client.connect(server.address, data_converter=converter, interceptors=[crowd])

        found = await AgentTree(client, on.on.settings, on.tree.id).list()

        assert ([row.path for row in found.agents], crowd.left) == (["/root/a"], -1)
