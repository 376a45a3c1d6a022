"""Calls that are reset while they wait: what had not begun runs, what is known stays (spec §1.7)."""

from __future__ import annotations

from pathlib import Path

import pytest
from temporalio.client import WorkflowExecutionStatus

from signals.parking import Sleep
from tarry.embedded import EmbeddedServer
from tests.support.gating import Guard, Ledger, gate, gated_app, start_gated
from tests.support.parking import ANSWER, HOUR, YES, Call, Waits, start, waiting_app
from tests.support.shell import succeeds
from tests.support.stage import Stage, idle_stage, stage
from tests.support.waiting import eventually

ONCE = Sleep(signals=[ANSWER.key("go")], until=HOUR)
TOLD = f"signal {ANSWER.name}/go: yes"


async def reset(server: EmbeddedServer, call: Call, place: str, *more: str) -> None:
    """Reset its current run, and return when another one is there."""
    before = (await call.handle.describe()).run_id
    where = ("--workflow-id", call.id, "--reason", "drill", "--type", place, *more)
    await succeeds(server, "workflow", "reset", *where)

    async def run_id() -> str:
        return (await call.handle.describe()).run_id

    await eventually(run_id, lambda found: found != before)


@pytest.mark.parametrize("place", ["FirstWorkflowTask", "LastWorkflowTask"])
async def test_unsafe_call_that_is_reset_while_it_waits_waits_on_and_then_runs_once(
    server: EmbeddedServer, tmp_path: Path, place: str
) -> None:
    waits = Waits(ONCE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        before = await call.parked()

        await reset(server, call, place)

        after = await call.parked()
        assert (after.until, after.keys, after.checkpoint) == (before.until, before.keys, before.checkpoint)
        await call.update("go", YES)
        outcome = await call.ends()
        assert (outcome.code, outcome.text) == ("", TOLD)
        assert [seen.wake for seen in waits.seen] == ["", f"signal {ANSWER.name}/go"]


async def test_value_that_came_before_the_reset_wakes_the_call_after_it_unless_signals_are_excluded(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(ONCE)
    async with idle_stage(server, waiting_app(waits.tool), tmp_path) as on:
        async with on.worker():
            kept, excluded = await start(on, waits.tool), await start(on, waits.tool)
            for call in (kept, excluded):
                await call.parked()
        for call in (kept, excluded):
            await call.signal("go", YES)
        await reset(server, kept, "LastWorkflowTask")
        await reset(server, excluded, "LastWorkflowTask", "--reapply-exclude", "Signal")

        async with on.worker():
            assert (await kept.ends()).text == TOLD
            assert (await excluded.view()).state == "sleeping"
            await excluded.update("go", {"text": "no"})
            assert (await excluded.ends()).text.endswith(": no")
            assert len(waits.seen) == 4


async def test_unsafe_run_that_was_woken_before_the_reset_is_interrupted(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(ONCE, holds=lambda seen: bool(seen.wake))
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        await call.update("go", YES)
        await waits.ran(2)

        await reset(server, call, "FirstWorkflowTask")

        assert (await call.ends()).code == "interrupted"
        assert len(waits.seen) == 2


async def test_call_that_is_reset_while_it_waits_for_an_approval_runs_once_when_it_has_it(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    ledger, guard = Ledger(), Guard("go")
    async with stage(server, gated_app(ledger.edit, gate(guard)), tmp_path) as on:
        call = await start_gated(on, "edit", path="a")
        await call.asks()

        await reset(server, call, "LastWorkflowTask")
        await call.asks()
        await call.value("go")

        outcome = await call.ends()
        assert (outcome.code, outcome.text, len(ledger.runs)) == ("", "edited a", 1)


async def test_of_a_timeline_that_the_server_has_forgotten_the_worst_is_assumed(
    server: EmbeddedServer, tmp_path: Path
) -> None:
    waits = Waits(ONCE)
    async with stage(server, waiting_app(waits.tool), tmp_path) as on:
        call = await start(on, waits.tool)
        await call.parked()
        first = (await call.handle.describe()).run_id
        await reset(server, call, "LastWorkflowTask")
        await succeeds(server, "workflow", "delete", "--workflow-id", call.id, "--run-id", first, "--yes")
        await eventually(lambda: timelines(on, call), lambda found: found == [WorkflowExecutionStatus.RUNNING])

        await call.update("go", YES)

        assert (await call.ends()).code == "interrupted"
        assert len(waits.seen) == 1


async def timelines(on: Stage, call: Call) -> list[WorkflowExecutionStatus | None]:
    """How each run of the call that the server knows stands."""
    return [found.status async for found in on.client.list_workflows(f'WorkflowId = "{call.id}"')]
