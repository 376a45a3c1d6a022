"""A Stop of a conversation that has agents below it is told to their tree, whoever stops it (spec §17.11)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tarry import App, Sleep
from tarry.client import Conversation, Submission
from tarry.core.protocol import ABORT
from tarry.core.subagents.protocol import AGENTS, tree_of
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tarry.tools import tool
from tests.support.fake_tree import fake_tree
from tests.support.stage import Stage, app_of, stage, taken_up
from tests.support.waiting import eventually

OWNER = "root~nonce/g1/t1.0"

Stop = Callable[[Stage, Conversation], Awaitable[None]]


async def by_update(on: Stage, conversation: Conversation) -> None:
    await on.client.get_workflow_handle(conversation.id).execute_update(ABORT)


async def by_plain_signal(on: Stage, conversation: Conversation) -> None:
    await conversation.abort()


async def by_temporals_cancel(on: Stage, conversation: Conversation) -> None:
    await on.client.get_workflow_handle(conversation.id).cancel()


async def of_the_run_itself(on: Stage, conversation: Conversation) -> None:
    await on.client.get_workflow_handle((await conversation.view()).open_generation or "").cancel()


@tool(replay="safe")
def wait() -> Sleep:
    """Wait for a long time."""
    return Sleep(until=timedelta(hours=1), ask="how long?")


def app() -> App:
    return app_of(ScriptedModel.for_each_input([call("wait"), say("done")]), wait)


def stopped(conversation: Conversation, run: int) -> tuple[str, Any]:
    return ("stopped", {"conversation_id": conversation.id, "run": run})


async def parked_run(on: Stage, conversation: Conversation) -> Submission:
    """Submit, and wait until its call is parked."""
    submission = await conversation.submit("go")
    await eventually(lambda: on.harness.questions(conversation.id))
    return submission


async def root_with_a_tree(on: Stage) -> tuple[Conversation, str]:
    """A conversation without an owner, and the id that its tree has."""
    conversation = on.harness.conversation()
    await conversation.configure(cwd="/")
    view = await conversation.view()
    return conversation, tree_of(f"{view.conversation_id}~{view.nonce}")


@pytest.mark.parametrize("stop", [by_update, by_plain_signal, by_temporals_cancel, of_the_run_itself])
async def test_every_stop_of_a_subagent_is_told_to_its_tree(server: EmbeddedServer, tmp_path: Path, stop: Stop) -> None:
    """Given a conversation that began with a tree and is in its first run, when it is stopped, the tree is told."""
    async with stage(server, app(), tmp_path) as on, fake_tree(on.client) as tree:
        conversation = on.harness.conversation()
        await conversation.start(owner=OWNER, tree=tree.id)
        await parked_run(on, conversation)

        await stop(on, conversation)

        assert await tree.has_been_told(1, "stopped") == [stopped(conversation, 1)]


@pytest.mark.parametrize("stop", [by_update, by_plain_signal, by_temporals_cancel, of_the_run_itself])
async def test_every_stop_of_a_root_that_has_a_tree_is_told_to_it(
    server: EmbeddedServer, tmp_path: Path, stop: Stop
) -> None:
    """Given a root that was told of its tree, when it is stopped in its first run, the tree is told."""
    async with stage(server, app(), tmp_path) as on:
        conversation, tree_id = await root_with_a_tree(on)
        async with fake_tree(on.client, tree_id) as tree:
            await on.client.get_workflow_handle(conversation.id).signal(AGENTS)
            await parked_run(on, conversation)

            await stop(on, conversation)

            assert await tree.has_been_told(1) == [stopped(conversation, 1)]


async def test_a_stop_of_an_idle_conversation_stops_what_is_below_it(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a root whose first run has ended, when it is stopped twice, the tree is told twice."""
    async with stage(server, app_of(ScriptedModel([say("done")])), tmp_path) as on:
        conversation, tree_id = await root_with_a_tree(on)
        async with fake_tree(on.client, tree_id) as tree:
            await on.client.get_workflow_handle(conversation.id).signal(AGENTS, tree_id)
            await (await conversation.submit("go")).wait()

            await conversation.abort()
            await conversation.abort()

            assert await tree.has_been_told(2) == [stopped(conversation, 1)] * 2


async def test_a_root_that_was_stopped_before_it_knew_of_its_tree_tells_it_then(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a root that was stopped in its first run, when it is told of its tree, it tells of that Stop, once."""
    async with stage(server, app(), tmp_path) as on:
        conversation, tree_id = await root_with_a_tree(on)
        async with fake_tree(on.client, tree_id) as tree:
            await parked_run(on, conversation)
            await conversation.abort()

            for _ in range(2):
                await on.client.get_workflow_handle(conversation.id).signal(AGENTS)

            assert await tree.has_been_told(1) == [stopped(conversation, 1)]
            await conversation.abort()
            assert await tree.has_been_told(2) == [stopped(conversation, 1)] * 2


async def test_a_conversation_without_a_tree_leaves_no_event_more_for_a_stop(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a root that has no tree, when it is stopped, nothing is sent."""
    async with stage(server, app(), tmp_path) as on:
        conversation = on.harness.conversation()
        submission = await parked_run(on, conversation)

        await conversation.abort()

        await submission.wait()
        assert "ACTIVITY_TASK_SCHEDULED" not in (await on.histories(conversation.id))[conversation.id]


async def test_a_tree_that_is_gone_keeps_nothing_from_going_on(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a conversation whose tree is nowhere, when it is stopped, it answers the next input."""
    async with stage(server, app_of(ScriptedModel([say("fine")])), tmp_path) as on:
        conversation = on.harness.conversation()
        await conversation.start(owner=OWNER, tree="nowhere~nonce/agents")
        await conversation.abort()
        await on.client.get_workflow_handle(conversation.id).cancel()
        await taken_up(on.client, conversation.id)

        assert (await (await conversation.submit("go on")).wait()).answer_text == "fine"


async def test_a_reset_of_the_context_stops_no_agent(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a conversation with a tree, when its context is reset and then it is stopped, the Stop alone is told."""
    async with stage(server, app(), tmp_path) as on, fake_tree(on.client) as tree:
        conversation = on.harness.conversation()
        await conversation.start(owner=OWNER, tree=tree.id)
        await (await conversation.reset("anew")).wait()

        await conversation.abort()

        assert await tree.has_been_told(1) == [stopped(conversation, 0)]
