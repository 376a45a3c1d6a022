"""The drill that pauses what runs, and lets it go on."""

from __future__ import annotations

from tarry.client import Submission
from tarry.drills.desk.ground import DESK, begin, effects, state
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import BEGUN, Ground, call_of
from tarry.drills.kit.model import MID_STREAM
from tarry.drills.kit.step import Step

FIRST = ("--activity-id", "1")


async def _pause(step: Step, workflow_id: str) -> None:
    await step.temporal("activity", "pause", *FIRST, "--workflow-id", workflow_id, "--reason", "no paper")


@drill("pause", app=DESK)
async def pause(on: Ground) -> None:
    """A paused tool is taken from its worker and, if safe, runs again when it is let; a model request is held."""
    await on.worker()
    party = await begin(on, "party", "print 3 | say Done.", hold_at=[BEGUN])
    await on.held(party)

    async def is_resting() -> bool:
        described = await on.client.get_workflow_handle(call_of(party)).describe()
        (activity,) = described.raw_description.pending_activities
        return activity.paused and not activity.HasField("last_started_time")

    async with on.step(
        "Pause a safe tool", expected="its worker gives it back; it is shown as paused, with what it had said"
    ) as step:
        await _pause(step, call_of(party))
        await step.until("given back", is_resting, True)
        ran = await step.temporal("workflow", "describe", "--workflow-id", call_of(party), "-o", "json")
        (activity,) = ran.json["pendingActivities"]
        step.check("state", activity["state"], "PENDING_ACTIVITY_STATE_PAUSED")
        step.check("reason", activity["pauseInfo"]["manual"]["reason"], "no paper")
        step.check("it had said", activity["heartbeatDetails"][0]["text"].strip(), "printing 3 badges")
        ran = await step.tarry("explain", call_of(party))
        step.found(next(line.removeprefix("  pending").strip() for line in ran.lines if "paused" in line))

    async with on.step("Let it go on", expected="it runs again from its beginning, and prints once") as step:
        await step.temporal("activity", "unpause", *FIRST, "--workflow-id", call_of(party))
        step.check("the run", (await on.settled(party)).answer_text, "Done.")
        step.check("runs of its code", on.runs("party"), 2)
        step.check("outside", effects(on, "party"), ["printed 3 badges"])

    gala = await begin(on, "gala", "print_once 3 | say It was cut off.", hold_at=[BEGUN])
    await on.held(gala)
    async with on.step(
        "Pause an unsafe tool", expected="it may not run again, so the pause ends it: `interrupted`"
    ) as step:
        await _pause(step, call_of(gala))
        step.check("the run", (await on.settled(gala)).answer_text, "It was cut off.")
        step.check("the model read", await on.results("gala"), ["interrupted"])

    fair = await begin(on, "fair", "say All is well.", hold_at=[MID_STREAM])
    await on.held(fair)
    async with on.step(
        "Pause a model request", expected="the run is held: nothing is sent until somebody retries it"
    ) as step:
        await _pause(step, _run_of(fair))
        await step.until("state", lambda: state(on, _run_of(fair)), "held")

    async with on.step("Retry it", expected="the request is sent again, and answered") as step:
        await step.temporal("workflow", "signal", "--workflow-id", _run_of(fair), "--name", "tarry.retry")
        step.check("the run", (await on.settled(fair)).answer_text, "All is well.")


def _run_of(submission: Submission) -> str:
    return call_of(submission).rpartition("/")[0]
