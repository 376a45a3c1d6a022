"""The drill that lists what waits, and says why."""

from __future__ import annotations

import json

from tarry.drills.desk.ground import ANSWER, DESK, begin, parked
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground
from tarry.drills.kit.step import Step

FAR = "2100-01-01T00:00:00Z"


async def _listed(step: Step, query: str) -> list[str]:
    ran = await step.temporal("workflow", "list", "--query", query, "-o", "json")
    return sorted(row["execution"]["workflowId"] for row in ran.json)


@drill("list-parked", app=DESK)
async def list_parked(on: Ground) -> None:
    """What waits is listed, and says what it waits for, with no worker up."""
    await on.worker()
    await begin(on, "party", "ask ana | say Done.")
    await begin(on, "gala", "ask ana | say Done.")
    await begin(on, "picnic", "ask ben 86400 | say Done.")
    party, gala, picnic = [await parked(on, "party"), await parked(on, "gala"), await parked(on, "picnic", "ben")]

    async with on.step(
        "Stop the worker and list what is parked", expected="all three calls: lists need no worker"
    ) as step:
        step.did("stopped the only worker")
        await on.workers[0].stop()
        step.check("listed", await _listed(step, 'TarryState IN ("sleeping", "gated")'), sorted([party, gala, picnic]))

    async with on.step(
        "List by key, and by deadline", expected="two wait for ana; ben's question alone has a deadline"
    ) as step:
        step.check("wait for ana", await _listed(step, f'TarryWaitingFor="{ANSWER}/ana"'), sorted([party, gala]))
        step.check("have a deadline", await _listed(step, f'TarryDeadline < "{FAR}"'), [picnic])

    async with on.step(
        "Show why one waits", expected="the question, whom it is for, and the key that wakes it"
    ) as step:
        ran = await step.temporal("workflow", "describe", "--workflow-id", party, "-o", "json")
        note = ran.json["workflowExecutionInfo"]["memo"]["fields"]["tarry.parked"]
        step.check("question", note["text"], "May the party cost more?")
        step.check("for", note["for_whom"], "ana")
        step.check("arguments", json.loads(note["arguments"]), {"seconds": None, "whom": "ana"})
        step.check("keys", note["keys"], [f"{ANSWER}/ana"])

    async with on.step(
        "Ask the call itself", expected="with a worker up it says more, and which command wakes it"
    ) as step:
        step.did("started a worker")
        await on.worker()
        ran = await step.temporal("workflow", "query", "--workflow-id", party, "--name", "tarry.task", "-o", "json")
        told = ran.json["queryResult"][0]
        step.check("state", told["state"], "sleeping")
        step.check("checkpoint", told["checkpoint"], "asked")
        ran = await step.temporal("workflow", "metadata", "--workflow-id", party)
        wakes = [line for line in ran.lines if line.startswith("temporal workflow signal")]
        step.check("commands that wake it", len(wakes), 1)
        step.found(wakes[0])
