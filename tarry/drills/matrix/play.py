"""The drill that kills a worker with a call of each replay policy at each point, and counts outside what it came to.

One kill takes a worker with all of them at once. That something is due and a worker has no place for it is a matter of
the whole worker, so this has a worker and a kill of its own.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from temporalio.api.enums.v1 import PendingActivityState
from temporalio.service import RPCError, RPCStatusCode

from tarry.client import Submission
from tarry.drills.kit.app import DONE, NEWS
from tarry.drills.kit.cell import Cell, Policy
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import APP, BEGUN, Ground, call_of, run_of
from tarry.drills.kit.model import AFTER_RESULT, REQUEST
from tarry.drills.kit.score import POLICIES
from tarry.drills.kit.step import Step
from tarry.drills.matrix.app import ANSWER_TOLD, IN_GATE, TURN_TOLD
from tarry.drills.matrix.crash import EXPECTED, POINTS, CrashPoint, promised
from tarry.settings import PREFIX
from tarry.testing.waiting import eventually

CALLS = 3
"""Calls in each cell of the long form; in the short one there is one."""

SLEEPING = 'TarryState="sleeping" AND ExecutionStatus="Running"'


@dataclass(frozen=True)
class _Case:
    """One call on its way to its point, or there."""

    point: CrashPoint
    policy: Policy
    submission: Submission


@drill("crash-matrix", app="tarry.drills.matrix.app:app")
async def crash_matrix(on: Ground) -> None:
    """A worker is killed with a call of each replay policy at each point of its way; effects are counted outside."""
    calls = 1 if on.short else CALLS
    async with on.step("Bring calls of every policy to every point", expected="each is there, on one worker") as step:
        await _start(on, step)
        cases = [*await _woken(on, step, calls), *await _parked(on, calls), *await _held(on, calls)]
        step.found(f"{len(cases)} calls at {len({case.point for case in cases})} points")
    async with on.step("Kill the worker, wake what is parked", expected="no effect more than there was") as step:
        await _kill(on, step)
        await _wake(step)
        effects = [await on.tickets(case.submission.conversation_id) for case in cases]
        step.check("effects, with no worker up", sum(map(len, effects)), sum(case.point.had_effect for case in cases))
    await _go_on(on, cases)
    cases += await _starved(on, calls)
    for point in POINTS:
        await _judge(on, point, [case for case in cases if case.point == point])


async def _woken(on: Ground, step: Step, calls: int) -> list[_Case]:
    """Calls that have parked and were woken. Nothing else is parked yet, so one signal wakes them all."""
    cases = await _begun(on, (point for point in POINTS if point.parks and point.at), calls)
    await asyncio.gather(*(on.parked(case.submission) for case in cases))
    await _wake(step)
    await asyncio.gather(*(on.held(case.submission) for case in cases))
    return cases


async def _parked(on: Ground, calls: int) -> list[_Case]:
    cases = await _begun(on, (point for point in POINTS if point.parks and not point.at), calls)
    await asyncio.gather(*(on.parked(case.submission) for case in cases))
    return cases


async def _held(on: Ground, calls: int) -> list[_Case]:
    others = [point for point in POINTS if not point.parks and not point.starves]
    # A hook has a minute to answer: they are held last.
    points = sorted(others, key=lambda point: point.at in (IN_GATE, TURN_TOLD, ANSWER_TOLD))
    cases = await _begun(on, points, calls)
    await asyncio.gather(*(on.held(case.submission) for case in cases))
    return cases


async def _starved(on: Ground, calls: int) -> list[_Case]:
    """Calls with something due that no worker has begun, since others have all the places that the worker has."""
    async with on.step("Leave no place for what is due, and kill the worker", expected="nothing of it began") as step:
        points = [point for point in POINTS if point.starves]
        places = len(points) * len(POLICIES) * calls
        await on.workers[-1].stop()
        await _start(on, step, APP, **{f"{PREFIX}MAX_CONCURRENT_ACTIVITIES": str(places)})
        cases = await _begun(on, points, calls)
        held = await asyncio.gather(*(on.held(case.submission) for case in cases))
        others = [await on.submit("say It is my turn.", hold_at=[REQUEST]) for _ in range(places)]
        await asyncio.gather(*(_is_due(on, run_of(other)) for other in others))
        for arrival in held:
            arrival.let_go()
        await asyncio.gather(*(on.held(other) for other in others))
        await asyncio.gather(*(_is_due(on, _starving(case)) for case in cases))
        await _kill(on, step)
        step.check("begun", sum(_has_begun(on, case) for case in cases), 0)
    await _go_on(on, cases)
    return cases


def _starving(case: _Case) -> str:
    return call_of(case.submission) if case.point.starves == "call" else run_of(case.submission)


def _has_begun(on: Ground, case: _Case) -> bool:
    what = BEGUN if case.point.starves == "call" else AFTER_RESULT
    return on.points.passed(case.submission.conversation_id, what) > 0


async def _go_on(on: Ground, cases: Sequence[_Case]) -> None:
    async with on.step("Start another worker", expected="every input is answered") as step:
        await _start(on, step)
        ends = await asyncio.gather(*(on.settled(case.submission) for case in cases))
        step.check("inputs", dict(Counter(end.status for end in ends)), {"done": len(cases)})


async def _judge(on: Ground, point: CrashPoint, cases: Sequence[_Case]) -> None:
    """Count what the calls of one point came to, and hold it to the promise."""
    async with on.step(f"Killed {point.name}", expected=EXPECTED[point.cuts]) as step:
        step.did(f"asked the tracker, and read the transcripts, of {len(cases)} calls")
        for policy in POLICIES:
            cell = await _cell(on, point, policy, [case for case in cases if case.policy == policy])
            on.cells.append(cell)
            step.check(policy, _told(cell), _told(promised(point, policy, cell.calls)))


async def _cell(on: Ground, point: CrashPoint, policy: Policy, cases: Sequence[_Case]) -> Cell:
    conversations = [case.submission.conversation_id for case in cases]
    effects = [len(await on.tickets(conversation)) for conversation in conversations]
    results = [result for conversation in conversations for result in await on.results(conversation)]
    return Cell(
        policy=policy,
        point=point.name,
        calls=len(cases),
        runs=sum(map(on.runs, conversations)),
        effects=sum(effects),
        duplicates=sum(max(0, count - 1) for count in effects),
        read=dict(Counter(result.split()[0] for result in results)),
    )


def _told(cell: Cell) -> str:
    read = " and ".join(f"{what} {count}" for what, count in cell.read.items())
    return f"runs {cell.runs}, effects {cell.effects}, read {read}"


async def _begun(on: Ground, points: Iterable[CrashPoint], calls: int) -> list[_Case]:
    """So many calls of each policy on their way to each point."""
    return [
        _Case(point, policy, await on.submit(f"{policy} park" if point.parks else policy, hold_at=_plan(point)))
        for point in points
        for policy in POLICIES
        for _ in range(calls)
    ]


def _plan(point: CrashPoint) -> list[str]:
    return [point.at] if point.at else []


async def _start(on: Ground, step: Step, app: str | None = None, **environment: str) -> None:
    worker = await on.worker(app, **environment)
    step.did(f"started worker {len(on.workers)} (pid {worker.pid})")


async def _kill(on: Ground, step: Step) -> None:
    worker = on.workers[-1]
    step.did(f"SIGKILL to worker {len(on.workers)} (pid {worker.pid})")
    await worker.kill()


async def _wake(step: Step) -> None:
    """Signal all that is parked, by the server alone."""
    value = json.dumps({"key": DONE, "value": {"text": "go"}})
    signal = ("--name", NEWS.name, "--input", value)
    await step.temporal("workflow", "signal", "--query", SLEEPING, *signal, "--reason", "drill", "--yes")


async def _is_due(on: Ground, workflow_id: str) -> None:
    """Return when what a workflow waits for is in its history, and no worker has begun it."""

    async def states() -> list[PendingActivityState.ValueType]:
        try:
            described = await on.client.get_workflow_handle(workflow_id).describe()
        except RPCError as error:
            if error.status != RPCStatusCode.NOT_FOUND:
                raise
            return []
        return [pending.state for pending in described.raw_description.pending_activities]

    await eventually(states, lambda found: found == [PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED])
