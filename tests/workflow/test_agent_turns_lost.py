"""The permit of a subagent's run when workers are lost or a run is begun again: held work rests, too (spec §17.12)."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from temporalio.api.enums.v1 import EventType

from activities.heartbeat import Heartbeat
from tarry import App, Extension
from tarry.embedded import EmbeddedServer
from tarry.testing import ScriptedModel, call, say
from tests.support.agent_turns import Listening, agent, app_of, kinds_of
from tests.support.held import HeldModel, HeldTool
from tests.support.shell import succeeds
from tests.support.waiting import eventually


class Silence:
    """No heartbeat leaves while it lasts, as of a worker that is gone."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        beat, self.is_over = Heartbeat._beat, asyncio.Event()

        async def silent(heartbeat: Heartbeat) -> None:
            await self.is_over.wait()
            await beat(heartbeat)

        patch.setattr(Heartbeat, "_beat", silent)


async def test_a_run_whose_model_request_is_held_gives_its_permit_back(
    server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given a request whose worker was lost, when somebody retries it, it is sent once the permit is granted."""
    silence = Silence(monkeypatch)
    model = HeldModel(ScriptedModel([say("fine")]))
    app = App(model=model, extensions=[Extension("test")])
    async with agent(server, app, tmp_path, grants=False, restart_limit=1) as one:
        [(name, rested)] = await one.tree.has_been_told(1)
        assert (name, rested["waits_for"]) == ("rested", "somebody who retries it")
        silence.is_over.set()
        model.go.set()

        await one.on.harness.retry(await one.run())
        assert kinds_of(await one.tree.has_been_told(2)) == ["rested", "wants"]
        assert (await one.submission.status()).status == "placed"
        await one.tree.grant()

        assert (await one.submission.wait()).answer_text == "fine"


async def test_a_held_call_is_at_rest(server: EmbeddedServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Given a safe call whose worker was lost, when somebody retries it, it runs once the permit is granted."""
    silence, held = Silence(monkeypatch), HeldTool(replay="safe")
    app = app_of([call("work", what="x"), say("done")], held.tool)
    async with agent(server, app, tmp_path, grants=False, restart_limit=1) as one:
        assert kinds_of(await one.tree.has_been_told(1)) == ["rested"]
        silence.is_over.set()
        runs = len(held.ledger)

        await one.on.harness.retry(f"{await one.run()}/t1.0")
        assert kinds_of(await one.tree.has_been_told(2)) == ["rested", "wants"]
        assert len(held.ledger) == runs
        held.go.set()
        await one.tree.grant()

        assert await one.results() == ["did x"]


async def test_a_run_at_rest_that_is_reset_finds_its_call_and_lets_it_go_on(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a run at rest, when it is begun again from before its call, the call that is woken then goes on."""
    listening = Listening()
    async with agent(server, app_of([call("listen", keys="a"), say("done")], listening.tool), tmp_path) as one:
        await one.tree.has_been_told(1)
        run_id = await one.run()
        history = await one.on.client.get_workflow_handle(run_id).fetch_history()
        completed = [e.event_id for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]

        where = ("--event-id", str(completed[1]))
        await succeeds(server, "workflow", "reset", "--workflow-id", run_id, "--reason", "drill", *where)
        await one.say("a")

        assert await one.results() == ["a!"]
        assert listening.ran == ["begun", "signal test.answer/a"]
        numbers = [notice["number"] for _, notice in await one.tree.told("rested", "wants")]
        assert numbers == sorted(numbers)


async def test_a_run_that_is_reset_executes_nothing_more_before_its_tree_grants_that(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a run at rest, when it is begun again from before its call, it asks at once, and again when that wakes."""
    listening = Listening()
    app = app_of([call("listen", keys="a"), say("done")], listening.tool)
    async with agent(server, app, tmp_path, grants=False) as one:
        await one.tree.has_been_told(1)
        run_id = await one.run()
        history = await one.on.client.get_workflow_handle(run_id).fetch_history()
        completed = [e.event_id for e in history.events if e.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]

        where = ("--event-id", str(completed[1]))
        await succeeds(server, "workflow", "reset", "--workflow-id", run_id, "--reason", "drill", *where)
        await one.say("a")
        [(_, rested), (name, wanted)] = await one.tree.has_been_told(2)
        assert (name, wanted["number"] > rested["number"], listening.ran) == ("wants", True, ["begun"])

        await one.tree.grant()

        assert await one.results() == ["a!"]
        assert listening.ran == ["begun", "signal test.answer/a"]
        numbers = [notice["number"] for _, notice in await one.tree.told("rested", "wants")]
        assert numbers == sorted(numbers)


async def test_a_rest_and_a_wake_cost_a_run_six_signals_and_its_call_three(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    """Given a run with one call that parks once, when it is over, its histories hold these signals and no more."""
    async with agent(server, app_of([call("listen", keys="a"), say("done")], Listening().tool), tmp_path) as one:
        await one.tree.has_been_told(1)
        run_id = await one.run()
        await one.say("a")
        await one.results()

        histories = await one.on.histories(one.conversation.id)
        sent = "SIGNAL_EXTERNAL_WORKFLOW_EXECUTION_INITIATED"
        counts = {name: Counter(histories[name]) for name in (run_id, f"{run_id}/t1.0")}
        assert [(found["WORKFLOW_EXECUTION_SIGNALED"], found[sent]) for found in counts.values()] == [(3, 3), (1, 2)]
        await eventually(lambda: one.tree.told(), lambda told: len(told) == 2)
