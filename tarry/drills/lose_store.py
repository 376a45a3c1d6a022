"""The drill that takes the external store away for a while."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarry.connect import INLINE_BYTES
from tarry.drills.desk.ground import ANSWER, DESK, answer, begin, effects, parked, state
from tarry.drills.kit.drill import drill
from tarry.drills.kit.ground import Ground


@drill("lose-store", app=DESK)
async def lose_store(on: Ground) -> None:
    """The store of large content is gone for a while: what needs it waits, the rest goes on, nothing is lost."""
    await on.worker()
    party = await begin(on, "party", "ask ana | say Done.")
    call = await parked(on, "party")
    store, away = Path(on.settings.store), on.folder / "store-away"
    large = on.folder / "answer.json"
    large.write_text(answer("ana", "x" * (INLINE_BYTES + 1)))

    async with on.step("Take the store away", expected="work without large content does not notice") as step:
        step.did(f"put a file in the place of {store.name}/: nothing can be read or written below it")
        _take_away(store, away)
        gala = await begin(on, "gala", "book hall | say Done.")
        step.check("a run without large content", (await on.settled(gala)).answer_text, "Done.")

    async def attempts() -> bool:
        described = await on.client.get_workflow_handle(call).describe()
        return described.raw_description.pending_workflow_task.attempt > 1

    async with on.step(
        "Send the call a large value",
        expected="the server has it; the call's next step fails, and is tried again and again",
    ) as step:
        sent = ("--name", ANSWER, "--input-file", str(large))
        await step.temporal("workflow", "signal", "--workflow-id", call, *sent)
        await step.until("its next step is tried again", attempts, True)
        ran = await step.temporal("workflow", "describe", "--workflow-id", call, "-o", "json")
        step.found(f"attempt {ran.json['pendingWorkflowTask']['attempt']} at its next step")
        ran = await step.tarry("explain", call)
        step.found(next(line.removeprefix("  pending").strip() for line in ran.lines if "next step" in line))

    async with on.step("Leave it away", expected="nothing is lost, and nothing gives up") as step:
        seconds = on.seconds(60, 2)
        step.did(f"waited {seconds:g} s")
        await asyncio.sleep(seconds)
        step.check("the call", await state(on, call), "sleeping")
        step.check("outside", effects(on, "party"), ["asked ana"])

    async with on.step("Give it back", expected="the call takes the value by itself, once") as step:
        step.did(f"put {store.name}/ back")
        _give_back(store, away)
        step.check("the run", (await on.settled(party)).answer_text, "Done.")
        step.check("outside", effects(on, "party"), ["asked ana", "noted what ana said"])


def _take_away(store: Path, away: Path) -> None:
    store.mkdir(parents=True, exist_ok=True)
    store.rename(away)
    store.write_text("no directory")


def _give_back(store: Path, away: Path) -> None:
    store.unlink()
    away.rename(store)
