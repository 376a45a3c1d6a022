"""The drill that answers parked calls from a shell: one by its id, many by a query."""

from __future__ import annotations

from tarry.drills.desk.ground import ANSWER, DESK, answer, begin, effects, parked, state
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground

KEY = "TarryWaitingFor"


@drill("signal", app=DESK)
async def signal(on: Ground) -> None:
    """A plain signal wakes one call, and a query all that wait for the same; a wrong value harms nothing."""
    await on.worker()
    party = await begin(on, "party", "ask ana | say Done.")
    task_id = await parked(on, "party")

    async with on.step(
        "Send a value that does not fit", expected="the server stores it; the call refuses it, and waits on"
    ) as step:
        wrong = '{"key": "ana", "value": {"words": 1}}'
        await step.temporal("workflow", "signal", "--workflow-id", task_id, "--name", ANSWER, "--input", wrong)
        ran = await step.temporal(
            "workflow", "query", "--workflow-id", task_id, "--name", "tarry.receipts", "-o", "json"
        )
        step.check("answered", [receipt["answer"] for receipt in ran.json["queryResult"][0]], ["invalid"])
        step.check("state", await state(on, task_id), "sleeping")

    async with on.step(
        "Send one that fits", expected="the call wakes, has its effect once, and the run is answered"
    ) as step:
        fits = answer("ana", "up to 500")
        await step.temporal("workflow", "signal", "--workflow-id", task_id, "--name", ANSWER, "--input", fits)
        step.check("the run", (await on.settled(party)).answer_text, "Done.")
        step.check("the model read", await on.results("party"), ["ana said: up to 500"])
        step.check("outside", effects(on, "party"), ["asked ana", "noted what ana said"])

    async with on.step(
        "Send it once more", expected="the server says that the call is over; nothing happens twice"
    ) as step:
        ran = await step.temporal(
            *("workflow", "signal", "--workflow-id", task_id, "--name", ANSWER, "--input", fits), code=1
        )
        step.found(ran.err.strip())
        step.check("outside", effects(on, "party"), ["asked ana", "noted what ana said"])

    gala, picnic = await begin(on, "gala", "ask ana | say Done."), await begin(on, "picnic", "ask ana | say Done.")
    await begin(on, "fair", "ask ben | say Done.")
    await parked(on, "gala")
    await parked(on, "picnic")
    other = await parked(on, "fair", "ben")

    async with on.step(
        "Answer all that wait for ana at once", expected="a batch job signals the two; ben's question stays open"
    ) as step:
        query = f'{KEY}="{ANSWER}/ana" AND ExecutionStatus="Running"'
        await step.temporal("workflow", "count", "--query", query)
        await step.temporal(
            *("workflow", "signal", "--query", query, "--name", ANSWER, "--input", fits),
            *("--reason", "ana answered for all", "--yes"),
        )
        for submission in (gala, picnic):
            step.check("the run", (await on.settled(submission)).answer_text, "Done.")
        ran = await step.temporal("batch", "list", "-o", "json")
        step.check("batch jobs", len(ran.json), 1)
        step.check("ben's question", await state(on, other), "sleeping")
