"""A subagent's run gives its permit back while nothing of it executes, and asks before it goes on (spec §17.12)."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from tarry import Sleep, ToolApi
from tarry.embedded import EmbeddedServer
from tarry.testing import call, calls, say
from tarry.tools import tool
from tests.support.agent_turns import Agent, Listening, agent, app_of, kinds_of
from tests.support.fake_tree import fake_tree
from tests.support.held import HeldTool
from tests.support.stage import stage


async def test_a_parked_call_gives_the_permit_back_and_waits_for_it_when_it_is_woken(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a run whose only call is parked, when a signal wakes it, its code runs as soon as the tree grants that."""
    listening = Listening()
    app = app_of([call("listen", keys="a"), say("done")], listening.tool)
    async with agent(server, app, tmp_path, grants=False) as one:
        [(name, rested)] = await one.tree.has_been_told(1)
        assert (name, rested["conversation_id"], rested["generation_id"], rested["waits_for"]) == (
            "rested",
            one.conversation.id,
            await one.run(),
            "What of a?",
        )
        assert await one.say("a") == "delivered"
        [_, (name, wanted)] = await one.tree.has_been_told(2)
        assert (name, wanted) == ("wants", rested | {"waits_for": ""})
        assert listening.ran == ["begun"]

        await one.tree.grant()

        assert await one.results() == ["a!"]
        assert listening.ran == ["begun", "signal test.answer/a"]
        assert kinds_of(await one.tree.told()) == ["rested", "wants"]


async def test_each_rest_has_a_higher_number(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a call that parks twice, when it is woken twice, each wish names its rest, and the second is the higher."""
    app = app_of([call("listen", keys="a b"), say("done")], Listening().tool)
    async with agent(server, app, tmp_path) as one:
        await one.tree.has_been_told(1)
        await one.say("a")
        await one.tree.has_been_told(3)
        await one.say("b")

        assert await one.results() == ["a! b!"]
        told = await one.tree.told()
        assert kinds_of(told) == ["rested", "wants", "rested", "wants"]
        first, second = told[0][1]["number"], told[2][1]["number"]
        assert [notice["number"] for _, notice in told] == [first, first, second, second]
        assert first < second


async def test_a_call_that_is_woken_while_another_one_executes_goes_on_at_once(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a parked call beside one that executes, when the first is woken, it ends, and the tree is told nothing."""
    listening, held = Listening(), HeldTool()
    both = calls(call("listen", keys="a"), call("work", what="x"))
    async with agent(server, app_of([both, say("done")], listening.tool, held.tool), tmp_path, grants=False) as one:
        await held.begun()
        await one.say("a")
        await listening.has_run(2)
        assert await one.tree.told() == []

        held.go.set()

        assert await one.results() == ["a!", "did x"]
        assert await one.tree.told() == []


async def test_the_run_rests_when_the_last_call_that_executes_parks_or_ends(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a parked call beside one that executes, when the second ends, the permit is given back."""
    held = HeldTool()
    both = calls(call("listen", keys="a"), call("work", what="x"))
    async with agent(server, app_of([both, say("done")], Listening().tool, held.tool), tmp_path) as one:
        await held.begun()
        held.go.set()
        await one.tree.has_been_told(1, "rested")
        await one.say("a")

        assert await one.results() == ["a!", "did x"]
        assert kinds_of(await one.tree.told()) == ["rested", "wants"]


async def test_calls_that_are_woken_together_share_one_wish(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given two parked calls, when both are woken while no permit is free, one wish lets both go on."""
    listening = Listening()
    both = calls(call("listen", keys="a"), call("listen", keys="b"))
    async with agent(server, app_of([both, say("done")], listening.tool), tmp_path, grants=False) as one:
        await one.tree.has_been_told(1)
        await one.say("a", slot=0)
        await one.tree.has_been_told(2)
        await one.say("b", slot=1)
        await one.tree.grant()

        assert await one.results() == ["a!", "b!"]
        assert kinds_of(await one.tree.told()) == ["rested", "wants"]


async def test_why_a_call_woke_is_fixed_before_it_waits_for_the_permit(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a call that a signal woke before its deadline, when that passes before the grant, the signal counts."""
    listening = Listening(until=timedelta(seconds=8))
    app = app_of([call("listen", keys="a"), say("done")], listening.tool)
    async with agent(server, app, tmp_path, grants=False) as one:
        await one.tree.has_been_told(1)
        await one.say("a")
        await one.tree.has_been_told(2)
        await asyncio.sleep(8.1)
        await one.tree.grant()

        assert await one.results() == ["a!"]
        assert listening.ran == ["begun", "signal test.answer/a"]


async def test_a_deadline_that_wakes_a_call_waits_for_the_permit_too(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a call whose deadline has passed, when its value comes before the grant, it came too late."""
    listening = Listening(until=timedelta(seconds=1))
    app = app_of([call("listen", keys="a"), say("done")], listening.tool)
    async with agent(server, app, tmp_path, grants=False) as one:
        await one.tree.has_been_told(2)
        assert listening.ran == ["begun"]
        assert await one.say("a") == "closed"
        await one.tree.grant()

        assert await one.results() == ["nothing"]
        assert listening.ran == ["begun", "expired"]


async def test_a_stop_gets_through_while_a_call_waits_for_the_permit(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a woken call that waits for a permit, when its conversation is stopped, the run ends without one."""
    listening = Listening()
    app = app_of([call("listen", keys="a"), say("done")], listening.tool)
    async with agent(server, app, tmp_path, grants=False) as one:
        await one.tree.has_been_told(1)
        await one.say("a")
        await one.tree.has_been_told(2)

        await one.conversation.abort()

        settled = await one.submission.wait()
        assert (settled.status, settled.reason) == ("unanswered", "aborted")
        assert listening.ran == ["begun"]
        assert kinds_of(await one.tree.has_been_told(3)) == ["rested", "wants", "stopped"]


async def test_a_call_that_is_stopped_alone_leaves_its_run_to_wait_for_the_permit(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a run at rest, when its parked call is stopped by itself, the run asks before it asks its model again."""
    app = app_of([call("listen", keys="a"), say("done")], Listening().tool)
    async with agent(server, app, tmp_path, grants=False) as one:
        await one.tree.has_been_told(1)
        await one.on.harness.abort(f"{await one.run()}/t1.0")
        assert kinds_of(await one.tree.has_been_told(2)) == ["rested", "wants"]
        assert (await one.submission.status()).status == "placed"

        await one.tree.grant()

        assert "aborted" in (await one.results())[0]


async def test_without_a_tree_that_answers_a_run_goes_on(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a run whose tree is nowhere, when its parked call is woken, it goes on."""
    listening = Listening()
    app = app_of([call("listen", keys="a"), say("done")], listening.tool)
    async with agent(server, app, tmp_path, tree_id="nowhere~nonce/agents") as one:
        await listening.has_run(1)
        await one.say("a")

        assert await one.results() == ["a!"]


async def test_a_call_that_is_woken_at_once_tells_nobody(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a call that sleeps until now, when it ends, the tree was told nothing."""

    @tool(replay="safe")
    def doze(api: ToolApi) -> Sleep | str:
        """Sleep for no time."""
        return Sleep(until=timedelta(0)) if api.wake is None else "awake"

    async with agent(server, app_of([call("doze"), say("done")], doze), tmp_path) as one:
        assert await one.results() == ["awake"]
        assert await one.tree.told() == []


async def test_a_root_tells_nobody(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a conversation without a tree, when its call parks and is woken, no signal leaves its workflows."""
    app = app_of([call("listen", keys="a"), say("done")], Listening().tool)
    async with stage(server, app, tmp_path) as on, fake_tree(on.client) as tree:
        conversation = on.harness.conversation()
        one = Agent(on, tree, conversation, await conversation.submit("go"))
        await one.say("a")
        await one.results()

        histories = await on.histories(conversation.id)
        sent = "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED"
        assert [name for name, events in histories.items() if sent in events] == []
