"""The drill that resets calls themselves: one that waits, and ones that run."""

from __future__ import annotations

from tarry.drills.desk.ground import ANSWER, DESK, answer, begin, effects, parked
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import BEGUN, Ground, call_of
from tarry.drills.kit.step import Step

PRINTED = "printed 3 badges"


async def _reset(step: Step, call: str, place: str) -> None:
    await step.temporal("workflow", "reset", "--workflow-id", call, "--type", place, "--reason", "drill")


@drill("reset-call", app=DESK)
async def reset_call(on: Ground) -> None:
    """A call that is reset waits on when it waited; a run of it that had begun is repeated only if it is safe."""
    await on.worker()
    party = await begin(on, "party", "ask ana | say Done.")
    call = await parked(on, "party")

    async with on.step(
        "Reset a call that waits to its beginning", expected="it waits on: ana is not asked again, and can answer"
    ) as step:
        await _reset(step, call, "FirstWorkflowTask")
        value = answer("ana", "up to 500")
        await step.temporal("workflow", "signal", "--workflow-id", call, "--name", ANSWER, "--input", value)
        step.check("the run", (await on.settled(party)).answer_text, "Done.")
        step.check("the model read", await on.results("party"), ["ana said: up to 500"])
        step.check("outside", effects(on, "party"), ["asked ana", "noted what ana said"])

    gala = await begin(on, "gala", "print 3 | say Done.", hold_at=[BEGUN])
    await on.held(gala)
    async with on.step("Reset a safe tool's call that runs", expected="it runs again, and prints") as step:
        await _reset(step, call_of(gala), "LastWorkflowTask")
        step.check("the run", (await on.settled(gala)).answer_text, "Done.")
        step.check("runs of its code", on.runs("gala"), 2)
        step.check("outside", effects(on, "gala"), [PRINTED])

    fair = await begin(on, "fair", "print_once 3 | say It was cut off.", hold_at=[BEGUN])
    await on.held(fair)
    async with on.step(
        "Reset an unsafe tool's call that runs",
        expected="nobody knows whether it printed: it is not run again, and the model reads `interrupted`",
    ) as step:
        await _reset(step, call_of(fair), "LastWorkflowTask")
        step.check("the run", (await on.settled(fair)).answer_text, "It was cut off.")
        step.check("the model read", await on.results("fair"), ["interrupted"])
        step.check("runs of its code", on.runs("fair"), 1)

    async with on.step(
        "Find out, and have it done again",
        expected="nothing was printed; asked for in words, a new call with a key of its own prints once",
    ) as step:
        step.check("outside, before", effects(on, "fair"), [])
        words = "print_once 3 | say Printed."
        await step.tarry("submit", words, "--conversation", "fair", "--request-id", "print-again")
        again = on.harness.conversation("fair").submission("print-again")
        step.check("the run", (await on.settled(again)).answer_text, "Printed.")
        step.check("outside, after", effects(on, "fair"), [PRINTED])
