"""The drill that takes a run back to before a bad turn."""

from __future__ import annotations

from tarry.drills.desk.ground import ANSWER, DESK, answer, begin, effects, parked, run_of
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground

BOOKED, ASKED_ALL = "booked the hall", "asked everybody"
TAKEN_BACK = [BOOKED, ASKED_ALL, "told everybody that no answer is needed", "asked ana"]


@drill("reset-turn", app=DESK)
async def reset_turn(on: Ground) -> None:
    """A run is reset to before a bad turn: the model is asked again, and no effect from before is repeated."""
    await on.worker()
    party = await begin(on, "party", "book hall | ask ana | say Done.", model="hasty")
    run = run_of(await parked(on, "party", "everybody"))

    async with on.step(
        "See what went wrong", expected="turn 2 asked everybody in place of ana; the hall is booked"
    ) as step:
        ran = await step.tarry("explain", run, "--json")
        step.check("outside", effects(on, "party"), [BOOKED, ASKED_ALL])
        event_id = next(turn["event_id"] for turn in ran.json["turns"] if turn["turn"] == 2)
        step.found(f"turn 2 begins at event {event_id} of the run")

    async with on.step("Have another model asked", expected="the open run goes by it from its next request on") as step:
        ran = await step.tarry("configure", "party", "--model", "careful", "--json")
        step.check("the model", ran.json["agent"]["model"], "careful")

    async with on.step(
        "Reset the run to before turn 2",
        expected="the bad call is stopped and cleaned up after; ana is asked; the hall is not booked again",
    ) as step:
        where = ("--workflow-id", run, "--event-id", str(event_id), "--reason", "turn 2 asked everybody")
        await step.temporal("workflow", "reset", *where)
        call = await parked(on, "party", "ana")
        step.check("the new call", call, f"{run}/t2.0~2")
        step.check("outside", effects(on, "party"), TAKEN_BACK)

    async with on.step(
        "Answer, and let the run end", expected="the transcript tells one story: without the bad turn"
    ) as step:
        await step.temporal(
            *("workflow", "signal", "--workflow-id", call, "--name", ANSWER, "--input", answer("ana", "up to 500"))
        )
        step.check("the run", (await on.settled(party)).answer_text, "Done.")
        step.check("the model read", await on.results("party"), ["Booked the hall", "ana said: up to 500"])
        step.check("outside", effects(on, "party"), [*TAKEN_BACK, "noted what ana said"])

    await _the_same_again(on)
    await _nobody_is_asked(on)


async def _the_same_again(on: Ground) -> None:
    gala = await begin(on, "gala", "book hall | ask ana | say Done.")
    call = await parked(on, "gala")
    run = run_of(call)
    async with on.step(
        "Reset a run to before its first turn",
        expected="its calls are the same: one is adopted with its result, the one that waits is waited for",
    ) as step:
        await step.temporal(
            "workflow", "reset", "--workflow-id", run, "--type", "FirstWorkflowTask", "--reason", "drill"
        )
        await step.temporal(
            "workflow", "signal", "--workflow-id", call, "--name", ANSWER, "--input", answer("ana", "no")
        )
        step.check("the run", (await on.settled(gala)).answer_text, "Done.")
        step.check("the model read", await on.results("gala"), ["Booked the hall", "ana said: no"])
        step.check("outside", effects(on, "gala"), [BOOKED, "asked ana", "noted what ana said"])


async def _nobody_is_asked(on: Ground) -> None:
    fair = await begin(on, "fair", "book hall | ask ana | say Done.")
    call = await parked(on, "fair")
    async with on.step(
        "Reset a run whose model asks nobody this time",
        expected="the call that waits is stopped and cleaned up after, since nobody waits for it any more",
    ) as step:
        await step.tarry("configure", "fair", "--model", "brief", "--json")
        await step.temporal(
            *("workflow", "reset", "--workflow-id", run_of(call), "--type", "FirstWorkflowTask", "--reason", "drill")
        )
        step.check("the run", (await on.settled(fair)).answer_text, "I decide it myself.")
        step.check("the model read", await on.results("fair"), ["Booked the hall"])
        step.check("outside", effects(on, "fair"), [BOOKED, "asked ana", "told ana that no answer is needed"])
