"""The `migrate` of a durable task is code of the application: it runs where the phases run (spec §4.2)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from temporalio.activity import ActivityCancellationDetails

from activities.task.tasks import TaskActivities
from tarry import DurableTask
from tarry.core.protocol import ToolOutcome, ToolRunInput
from tarry.core.waiting import CleanedUp, ParkRequest, StepRequest
from tarry.tasks import Migrate
from tests.support.tool_bench import RUN_ID, Bench, signalling

OLD = {"phase": "begin", "data": 1, "version": 1}


def counting(migrate: Migrate, worker: str = "") -> DurableTask[str, str]:
    """The second version of a task."""
    task = DurableTask("app.count", str, str, version=2, migrate=migrate, worker=worker)

    @task.phase
    def count(question: str, api: Any) -> str:
        return f"{question} {api.checkpoint}"

    @task.abort
    def stopped(question: str, api: Any) -> None:
        api.output(f"stopped at {api.checkpoint}")

    return task


def intent(task: DurableTask[str, str]) -> ToolRunInput:
    """A run of a task that was parked by its first version."""
    return ToolRunInput(
        conversation_id="",
        task_id="no-such-workflow",
        call=task.call("how many?"),
        run=1,
        idempotency_key="key-1",
        heartbeat_timeout=8,
        first_run_id=RUN_ID,
        checkpoint=OLD,
    )


async def run(bench: Bench, task: DurableTask[str, str]) -> ToolOutcome | ParkRequest | StepRequest:
    code = TaskActivities({task.name: task}, bench.activities())
    return await bench.environment.run(code.run, intent(task))


async def test_it_runs_in_the_thread_of_the_phase_which_reads_what_it_made(bench: Bench) -> None:
    threads: list[str] = []

    def migrate(phase: str, data: int, version: int) -> tuple[str, int]:
        threads.append(threading.current_thread().name)
        return "count", data + 1

    end = await run(bench, counting(migrate))

    assert isinstance(end, ToolOutcome)
    assert (end.facts.details, threads) == ("how many? 2", ["tarry-app.count"])


async def test_one_that_blocks_holds_up_nobody_keeps_its_heartbeat_and_is_stopped(bench: Bench) -> None:
    entered, release = asyncio.Event(), threading.Event()
    enter = signalling(entered)

    def migrate(phase: str, data: int, version: int) -> tuple[str, int]:
        enter()
        release.wait(30)
        return "count", data

    running = asyncio.create_task(run(bench, counting(migrate)))
    await entered.wait()
    bench.environment.cancel(ActivityCancellationDetails(cancel_requested=True))
    end = await running
    release.set()

    assert isinstance(end, ToolOutcome)
    assert (end.code, bool(bench.beats)) == ("aborted", True)


async def test_a_worker_that_the_task_was_moved_from_does_not_run_it(bench: Bench) -> None:
    moves: list[str] = []

    def migrate(phase: str, data: int, version: int) -> tuple[str, int]:
        moves.append(phase)
        return "count", data

    end = await run(bench, counting(migrate, worker="gpu"))

    assert isinstance(end, ToolOutcome)
    assert (end.code, end.worker, moves) == ("not_here", "gpu", [])


async def test_a_phase_that_this_worker_lacks_is_not_here_also_when_it_is_only_known_then(bench: Bench) -> None:
    end = await run(bench, counting(lambda phase, data, version: ("later", data)))

    assert isinstance(end, ToolOutcome)
    assert end.code == "not_here"


async def test_a_worker_that_lacks_a_task_or_its_phase_tells_that_an_earlier_attempt_had_begun(bench: Bench) -> None:
    task = DurableTask("app.count", str, str)
    task.phase(_later)
    bench.informed(attempt=2, heartbeat_details=[{"text": "half"}])
    lacking = TaskActivities({}, bench.activities())

    ends = [await bench.environment.run(lacking.run, intent(task)), await run(bench, task)]

    assert [(end.code, end.facts.details) for end in ends if isinstance(end, ToolOutcome)] == [("not_here", "half")] * 2


def _later(question: str) -> str:
    raise AssertionError("ran")


async def test_the_abort_handler_reads_what_it_made_in_its_own_thread(bench: Bench) -> None:
    threads: list[str] = []

    def migrate(phase: str, data: int, version: int) -> tuple[str, int]:
        threads.append(threading.current_thread().name)
        return "count", data + 1

    task = counting(migrate)
    seen: list[int] = []
    task.abort(lambda question, api: seen.append(api.checkpoint))
    code = TaskActivities({task.name: task}, bench.activities())

    assert await bench.environment.run(code.clean_up, intent(task)) == CleanedUp()
    assert (seen, threads) == ([2], ["tarry-app.count"])
