"""Work that kills its worker again and again: counted, held at the limit, and never more than what is open.

The loops run side by side, each on a queue and with workers of its own.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest

from tarry.client import Submission, WorkItem
from tarry.embedded import EmbeddedServer
from tests.support.drills import ONCE_EACH, ROUND, Aftermath, Drill, Run
from tests.support.histories import Account
from tests.support.waiting import eventually

LIMIT = 5


@dataclass(frozen=True)
class Loop:
    """What a loop showed: what was held, the ledger at that time, and what came of it after a retry."""

    held: list[WorkItem]
    runs: list[Run]
    aftermath: Aftermath


@dataclass(frozen=True)
class Loops:
    tool: Loop
    model: Loop
    after_tool: Aftermath


@pytest.fixture(scope="module")
async def loops(server: EmbeddedServer, tracker_url: str, tmp_path_factory: pytest.TempPathFactory) -> Loops:
    """Every loop, to its end."""

    def drill(name: str, heartbeat_timeout: float) -> Drill:
        return Drill(server, tmp_path_factory.mktemp(name), tracker_url, heartbeat_timeout=heartbeat_timeout)

    tool, model, after_tool = await asyncio.gather(
        _held_and_retried(drill("tool", 1.0), "safe", "before the effect"),
        _held_and_retried(drill("model", 2.0), "say hello", "request", DRILL_PROVIDER_FAILURES="3"),
        _killed_after_the_tool(drill("after-tool", 2.0)),
    )
    return Loops(tool, model, after_tool)


async def _held_and_retried(drill: Drill, content: str, point: str, **last_worker: str) -> Loop:
    async with drill as on:
        submission = await on.submit(content, die_at=[point] * (LIMIT + 1))
        for _ in range(LIMIT + 1):
            await on.worker()
            await on.reached(submission)
        await on.worker(**last_worker)
        held = await eventually(lambda: _held(on, submission), bool)
        runs = on.runs(submission.conversation_id)
        assert await on.harness.retry(held[0].id)
        aftermath = await on.aftermath(submission)
        await eventually(lambda: _held(on, submission), lambda work: work == [])
        return Loop(held, runs, aftermath)


async def _held(on: Drill, submission: Submission) -> list[WorkItem]:
    work = [item async for item in on.harness.work(held_only=True)]
    return [item for item in work if item.conversation_id == submission.conversation_id]


async def _killed_after_the_tool(drill: Drill) -> Aftermath:
    async with drill as on:
        submission = await on.submit("safe", die_at=["request after a result"] * 3)
        for _ in range(3):
            await on.worker()
            await on.reached(submission)
        await on.worker()
        return await on.aftermath(submission)


async def test_safe_tool_that_kills_each_worker_is_held_after_six_runs_until_a_retry(loops: Loops) -> None:
    (held,) = loops.tool.held
    assert (held.kind, held.state, held.tool, held.id[-5:]) == ("tool call", "held", "safe", "/t1.0")
    assert [run.attempt for run in loops.tool.runs] == [1, 2, 3, 4, 5, 6]
    assert len({(run.title, run.key) for run in loops.tool.runs}) == 1
    (ticket,) = loops.tool.aftermath.tickets
    assert loops.tool.aftermath == Aftermath(
        end="done",
        kinds=ROUND,
        results=[f"Opened {ticket}"],
        runs=[1, 2, 3, 4, 5, 6, 7],
        tickets=[ticket],
        account=Account(models=ONCE_EACH, tools=("timed out 6", "completed 1"), announced=LIMIT),
    )


async def test_model_request_that_kills_each_worker_is_held_and_spends_no_provider_retry(loops: Loops) -> None:
    (held,) = loops.model.held
    assert (held.kind, held.state, held.tool) == ("generation", "held", "")
    lost, failed = ["note"] * (LIMIT + 1), ["note"] * 3
    assert loops.model.aftermath == Aftermath(
        end="done",
        kinds=["user", *lost, *failed, "assistant"],
        results=[],
        runs=[],
        tickets=[],
        account=Account(models=(*["timed out 1"] * (LIMIT + 1), *["completed 1"] * 4)),
    )


async def test_tool_that_ended_never_runs_again_however_often_the_next_request_is_killed(loops: Loops) -> None:
    (ticket,) = loops.after_tool.tickets
    assert loops.after_tool == Aftermath(
        end="done",
        kinds=["user", "assistant", "tool_result", "note", "note", "note", "assistant"],
        results=[f"Opened {ticket}"],
        runs=[1],
        tickets=[ticket],
        account=Account(models=("completed 1", *["timed out 1"] * 3, "completed 1"), tools=("completed 1",)),
    )
