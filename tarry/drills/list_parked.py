"""The drill that lists what waits."""

from __future__ import annotations

from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground


@drill("list-parked")
async def list_parked(on: Ground) -> None:
    """What waits is listed by Temporal's own command, with no worker up."""
    worker = await on.worker()
    submission = await on.submit("unsafe park")
    task_id = await on.parked(submission)
    async with on.step("Stop the worker and list what is parked", expected="the one call") as step:
        await worker.stop()
        step.did("stopped the worker")
        ran = await step.temporal("workflow", "list", "--query", 'TarryState="sleeping"', "-o", "json")
        step.check("listed", [row["execution"]["workflowId"] for row in ran.json], [task_id])
