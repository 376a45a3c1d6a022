"""The drill that ends work by force: no code of ours runs, and what is left of it is kept."""

from __future__ import annotations

from tarry.drills.desk.ground import DESK, begin, effects, parked, run_of
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground

PLAN = "book hall | ask ana | say Done."


@drill("terminate", app=DESK)
async def terminate(on: Ground) -> None:
    """A terminated call is `aborted` without cleanup; of a terminated run all that it had is kept."""
    await on.worker()
    party, gala = await begin(on, "party", PLAN), await begin(on, "gala", PLAN)
    call, run = await parked(on, "party"), run_of(await parked(on, "gala"))

    async with on.step(
        "Terminate one call", expected="the run goes on; nobody takes back what the call had asked for"
    ) as step:
        await step.temporal("workflow", "terminate", "--workflow-id", call, "--reason", "drill")
        end = await on.settled(party)
        step.check("the run", (end.status, end.answer_text), ("done", "Done."))
        step.check("the model read", await on.results("party"), ["Booked the hall", "aborted"])
        step.check("outside", effects(on, "party"), ["booked the hall", "asked ana"])

    async with on.step(
        "Terminate a run",
        expected="it is salvaged: its calls are stopped, its entries kept, its input unanswered: lost",
    ) as step:
        await step.temporal("workflow", "terminate", "--workflow-id", run, "--reason", "drill")
        end = await on.settled(gala)
        step.check("the input", (end.status, end.reason), ("unanswered", "lost"))
        entries = await on.harness.conversation("gala").transcript()
        step.check(
            "the transcript",
            [entry.kind for entry in entries if entry.kind != "system"],
            ["user", "assistant", "tool_result", "assistant", "note"],
        )
        step.check("the note", entries[-1].note, "The run was lost: Terminated")
        step.check(
            "outside", effects(on, "gala"), ["booked the hall", "asked ana", "told ana that no answer is needed"]
        )

    async with on.step("Ask again in the conversation whose run was lost", expected="it answers") as step:
        await step.tarry("submit", "say Still here.", "--conversation", "gala", "--request-id", "again")
        step.check(
            "the answer",
            (await on.settled(on.harness.conversation("gala").submission("again"))).answer_text,
            "Still here.",
        )
