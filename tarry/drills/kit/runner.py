"""Plays drills, each on ground of its own and several beside each other, and tells how they went."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tarry.drills.kit.drill import Drill
from tarry.drills.kit.ground import Ground, line_of
from tarry.drills.kit.report import DrillReport, StepReport

AT_ONCE = 2
"""Drills wait more than they work, and each has a server and workers of its own to start."""

Progress = Callable[[Drill, StepReport], None]
Keep = Callable[[Ground, DrillReport], Awaitable[None]]


async def play_all(
    drills: Sequence[Drill], folder: Path, *, short: bool, progress: Progress, over: Callable[[DrillReport], None]
) -> list[DrillReport]:
    """Play all of them below `folder`, two at a time; their reports, in the order of the drills.

    `progress` is told of each step and `over` of each drill when it has ended. A drill that fails stops none.
    """
    places = asyncio.Semaphore(AT_ONCE)

    async def play_one(drill: Drill) -> DrillReport:
        async with places:
            report = await play(drill, folder / drill.name, short=short, progress=progress)
        over(report)
        return report

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(play_one(drill)) for drill in drills]
    return [task.result() for task in tasks]


async def play(drill: Drill, folder: Path, *, short: bool, progress: Progress, keep: Keep | None = None) -> DrillReport:
    """Play one drill in `folder`, which it makes. Whatever it started has ended when this returns.

    `keep` is given the ground as the drill leaves it, before anything ends.
    """
    begun = time.monotonic()
    ground = Ground(drill.app, folder, short=short, has_ui=keep is not None, told=lambda step: progress(drill, step))

    def report(problem: str) -> DrillReport:
        return DrillReport(
            name=drill.name,
            title=drill.title,
            ok=not problem and all(step.ok for step in ground.steps),
            problem=problem,
            seconds=round(time.monotonic() - begun, 1),
            state=str(folder),
            steps=tuple(ground.steps),
            matrix=tuple(ground.cells),
        )

    try:
        async with ground:
            found = report(await _problem_of(drill, ground))
            if keep is not None:
                await keep(ground, found)
            return found
    except Exception as error:  # of a server or tracker that did not start
        return report(line_of(error))


async def _problem_of(drill: Drill, ground: Ground) -> str:
    """Play it; why it ended before its end, empty when it did not."""
    try:
        await drill.play(ground)
    except Exception as error:  # whatever it is, the others are played, and this one has failed
        return line_of(error)
    return ""
