"""What rests in a subagent's run: nested calls with their callers, tasks of hooks, gated calls (spec §17.12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from activities.task import nesting
from tarry import DurableTask, Hooks, HookTask, Received, Sleep, ToolApi, Turn, Wait
from tarry.embedded import EmbeddedServer
from tarry.hooks import Gate, HookApi, HookCall
from tarry.testing import call, calls, say
from tarry.tools import tool
from tests.support.agent_turns import HOUR, Listening, agent, app_of, kinds_of
from tests.support.held import HeldTool
from tests.support.parking import ANSWER, Answer
from tests.support.waiting import eventually


async def test_a_caller_that_parks_rests_with_all_that_it_created(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a call that waits for its nested call, when that parks the run rests, and asks once."""
    listening = Listening()

    @tool(replay="safe")
    async def outer(api: ToolApi) -> Wait | str:
        """Wait for a nested call."""
        nested = await api.execute_tool("listen", {"keys": "a"}, key="inner", wait=False)
        return Wait([nested.task_id]) if api.wake is None else (await nested.result()).text

    async with agent(server, app_of([call("outer"), say("done")], outer, listening.tool), tmp_path) as one:
        await one.tree.has_been_told(1)
        await one.say("a", below="/k.inner")

        assert await one.results() == ["a!"]
        assert kinds_of(await one.tree.told()) == ["rested", "wants"]


async def test_a_caller_is_executing_while_its_nested_call_executes(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a parked caller whose nested call works, when both end, the tree was told nothing."""
    held = HeldTool()

    @tool(replay="safe")
    async def outer(api: ToolApi) -> Wait | str:
        """Wait for a nested call."""
        nested = await api.execute_tool("work", {"what": "x"}, key="inner", wait=False)
        return Wait([nested.task_id]) if api.wake is None else (await nested.result()).text

    async with agent(server, app_of([call("outer"), say("done")], outer, held.tool), tmp_path, grants=False) as one:
        await held.begun()
        caller = f"{await one.run()}/t1.0"
        await eventually(lambda: one.on.harness.task(caller), lambda task: task.state == "waiting")
        held.go.set()

        assert await one.results() == ["did x"]
        assert await one.tree.told() == []


async def test_a_caller_that_made_room_is_at_rest_too(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given safe code that awaits a parked nested call for long, when it makes room, the run rests."""
    monkeypatch.setattr(nesting, "PATIENCE", 0.2)

    @tool(replay="safe")
    async def outer(api: ToolApi) -> str:
        """Await a nested call."""
        return (await api.execute_tool("listen", {"keys": "a"}, key="inner")).text

    async with agent(server, app_of([call("outer"), say("done")], outer, Listening().tool), tmp_path) as one:
        await one.tree.has_been_told(1)
        await one.say("a", below="/k.inner")

        assert await one.results() == ["a!"]
        assert kinds_of(await one.tree.told()) == ["rested", "wants"]


async def test_the_next_call_of_a_sequential_round_begins_with_the_permit(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a call at rest and one behind it, when the first is stopped alone, the second begins once it is granted."""
    held = HeldTool(sequential=True)
    held.go.set()
    both = calls(call("listen", keys="a"), call("work", what="x"))
    async with agent(server, app_of([both, say("done")], Listening().tool, held.tool), tmp_path, grants=False) as one:
        await one.tree.has_been_told(1)
        await one.on.harness.abort(f"{await one.run()}/t1.0")
        assert kinds_of(await one.tree.has_been_told(2)) == ["rested", "wants"]
        assert held.ledger == []

        await one.tree.grant()

        assert (await one.results())[1] == "did x"


async def test_a_call_that_is_parked_at_its_gate_is_at_rest(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a call that waits for an approval, when that is given and no permit is free, it does not run yet."""
    acted: list[str] = []

    async def before(call: HookCall, api: HookApi) -> Gate:
        answered = await api.read_signal(ANSWER, "a")
        return None if isinstance(answered, Received) else Sleep(signals=[ANSWER.key("a")], until=HOUR, ask="May it?")

    @tool(replay="safe")
    def act() -> str:
        """Act."""
        acted.append("acted")
        return "acted"

    app = app_of([call("act"), say("done")], act, hooks=Hooks(before_tool=before))
    async with agent(server, app, tmp_path, grants=False) as one:
        [(_, rested)] = await one.tree.has_been_told(1)
        assert rested["waits_for"] == "May it?"
        await one.say("a")
        assert kinds_of(await one.tree.has_been_told(2)) == ["rested", "wants"]
        assert acted == []
        await one.tree.grant()

        assert await one.results() == ["acted"]


async def test_the_task_of_a_hook_rests_and_asks_like_a_call(server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a round whose hook waits in a task, when that parks and is woken, the permit is given back and regained."""
    task: DurableTask[str, dict[str, Any]] = DurableTask("test.task", str, dict[str, Any])

    @task.phase
    async def wait(told: str, api: ToolApi) -> Sleep | dict[str, Any]:
        done = await api.read_signal(ANSWER, "a")
        return {} if isinstance(done, Received) else Sleep(signals=[ANSWER.key("a")], until=HOUR)

    @tool(replay="safe")
    def look() -> str:
        """Look."""
        return "seen"

    def after_tools(turn: Turn) -> list[HookTask]:
        return [HookTask(task, "go")]

    app = app_of([call("look"), say("done")], look, tasks=[task], hooks=Hooks(after_tools=after_tools))
    async with agent(server, app, tmp_path, grants=False) as one:
        await one.tree.has_been_told(1)
        await one.on.harness.signal(f"{await one.run()}/h1.0", ANSWER, "a", Answer(text="a!"))
        await one.tree.has_been_told(2)
        await one.tree.grant()

        assert await one.results() == ["seen"]
        assert kinds_of(await one.tree.told()) == ["rested", "wants"]


async def test_a_parked_call_that_turns_over_still_asks(lowered_server: EmbeddedServer, tmp_path: Path) -> None:
    """Given a call at rest whose workflow run turns over, when the next run of it is woken, it waits for the grant."""
    listening = Listening()
    app = app_of([call("listen", keys="a"), say("done")], listening.tool)
    async with agent(lowered_server, app, tmp_path, grants=False, turnover_events=25) as one:
        await one.tree.has_been_told(1)
        task_id = f"{await one.run()}/t1.0"

        async def turned() -> bool:
            await one.on.harness.signal(task_id, ANSWER, "other", Answer(text="no"), delivery_id=None)
            return (await one.on.client.count_workflows(f'WorkflowId = "{task_id}"')).count > 1

        await eventually(turned)
        await one.say("a")
        assert kinds_of(await one.tree.has_been_told(2)) == ["rested", "wants"]
        assert listening.ran == ["begun"]
        await one.tree.grant()

        assert await one.results() == ["a!"]
