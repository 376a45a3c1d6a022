"""The drill that resets parked calls, with the signals that came since then, and without."""

from __future__ import annotations

from tarry.drills.desk.ground import ANSWER, DESK, answer, begin, effects, parked, state
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground
from tarry.drills.kit.step import Step

LAST = ("--type", "LastWorkflowTask")
SIGNALED = "EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED"


async def _signals(step: Step, call: str) -> int:
    """How many signals are in its history now."""
    ran = await step.temporal("workflow", "show", "--workflow-id", call, "-o", "json")
    return [event["eventType"] for event in ran.json["events"]].count(SIGNALED)


@drill("reset-signals", app=DESK)
async def reset_signals(on: Ground) -> None:
    """A reset keeps the signals that came after its place, unless it is told to leave them out."""
    worker = await on.worker()
    party, gala = await begin(on, "party", "ask ana | say Done."), await begin(on, "gala", "ask ana | say Done.")
    kept, forgotten = await parked(on, "party"), await parked(on, "gala")

    async with on.step("Answer both while no worker is up", expected="the server keeps the answers") as step:
        step.did("stopped the only worker")
        await worker.stop()
        for call, words in ((kept, "up to 500"), (forgotten, "up to 50000")):
            value = answer("ana", words)
            await step.temporal("workflow", "signal", "--workflow-id", call, "--name", ANSWER, "--input", value)
            step.check("answers in the history", await _signals(step, call), 1)

    async with on.step("Reset the first", expected="the answer stands in the new history too") as step:
        await step.temporal("workflow", "reset", "--workflow-id", kept, *LAST, "--reason", "drill")
        step.check("answers in the history", await _signals(step, kept), 1)

    async with on.step(
        "Reset the second without its signals", expected="the answer, a slip of the pen, is gone"
    ) as step:
        without = ("--reapply-exclude", "Signal", "--reason", "a slip of the pen")
        await step.temporal("workflow", "reset", "--workflow-id", forgotten, *LAST, *without)
        step.check("answers in the history", await _signals(step, forgotten), 0)

    async with on.step("Start a worker", expected="the first has its answer and goes on; the second waits on") as step:
        step.did("started a worker")
        await on.worker()
        step.check("the first run", (await on.settled(party)).answer_text, "Done.")
        step.check("its model read", await on.results("party"), ["ana said: up to 500"])
        step.check("the second call", await state(on, forgotten), "sleeping")

    async with on.step("Answer the second anew", expected="that answer counts; nobody was asked twice") as step:
        value = answer("ana", "up to 500")
        await step.temporal("workflow", "signal", "--workflow-id", forgotten, "--name", ANSWER, "--input", value)
        step.check("the second run", (await on.settled(gala)).answer_text, "Done.")
        step.check("its model read", await on.results("gala"), ["ana said: up to 500"])
        for name in ("party", "gala"):
            step.check(f"outside, for the {name}", effects(on, name), ["asked ana", "noted what ana said"])
