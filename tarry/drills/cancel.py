"""The drill that stops work in good order: one call, or a run with all its calls."""

from __future__ import annotations

from tarry.drills.desk.ground import DESK, begin, effects, parked, run_of
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground

PLAN = "book hall | ask ana | say Done."
TAKEN_BACK = ["booked the hall", "asked ana", "told ana that no answer is needed"]


@drill("cancel", app=DESK)
async def cancel(on: Ground) -> None:
    """A cancel is a Stop: what waits is cleaned up after, each call has a result, the conversation goes on."""
    await on.worker()
    party, gala = await begin(on, "party", PLAN), await begin(on, "gala", PLAN)
    call, run = await parked(on, "party"), run_of(await parked(on, "gala"))

    async with on.step(
        "Cancel one call", expected="its cancel hook runs; the model reads `aborted`, and the run goes on"
    ) as step:
        await step.temporal("workflow", "cancel", "--workflow-id", call)
        end = await on.settled(party)
        step.check("the run", (end.status, end.answer_text), ("done", "Done."))
        step.check("the model read", await on.results("party"), ["Booked the hall", "aborted"])
        step.check("outside", effects(on, "party"), TAKEN_BACK)

    async with on.step("Cancel a run", expected="the same for its call; the input is unanswered: aborted") as step:
        await step.temporal("workflow", "cancel", "--workflow-id", run)
        end = await on.settled(gala)
        step.check("the input", (end.status, end.reason), ("unanswered", "aborted"))
        step.check("the model read", await on.results("gala"), ["Booked the hall", "aborted"])
        step.check("outside", effects(on, "gala"), TAKEN_BACK)

    async with on.step("Ask again in the conversation that was stopped", expected="it answers") as step:
        await step.tarry("submit", "say Still here.", "--conversation", "gala", "--request-id", "again")
        step.check(
            "the answer",
            (await on.settled(on.harness.conversation("gala").submission("again"))).answer_text,
            "Still here.",
        )
